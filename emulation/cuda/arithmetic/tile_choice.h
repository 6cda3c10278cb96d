// Chooses the roundings of a matrix product's tiles. Host only.
#pragma once

#include <cstddef>

#include "emulation/arithmetic/register_sum.h"
#include "emulation/cuda/arithmetic/matmul_tile.h"
#include "emulation/cuda/arithmetic/pairwise_tile.h"

namespace apscope::detail {

// Tiles of four rows need fewer loads, but tiles of one row occupy the lanes of a GPU (some 2^14)
// several times where there are not so many outputs.
inline bool prefers_tall_tiles(std::size_t batches, std::size_t rows, std::size_t columns) {
    return rows > 1 && batches * rows * columns >= std::size_t{1} << 19;
}

// Calls f(step) with a step that sets `out` to the sums in the accumulator's format, and returns
// true; or returns false where MatmulStep is needed. The options have been validated
// (make_matmul_rounders).
template <class F>
bool with_matmul_tile(const float* a, const float* b, float* out, std::size_t batches,
                      std::size_t rows, std::size_t terms, std::size_t columns, bool tall,
                      const SumOptions& options, F&& f) {
    using Kind = SumOrder::Kind;
    const Kind kind = options.order.kind;
    if (columns == 0 || terms == 0 || kind == Kind::exact || kind == Kind::unit ||
        (kind == Kind::pairwise && terms > most_pairwise_terms))
        return false;
    const auto steps = make_sum_steps<float>(options);
    if (!steps) return false;
    const ValueRange sums = range_of(options.accumulate.value_or(options.format)),
                     products = options.product ? range_of(*options.product) : ValueRange{};
    const auto follows_odd = [](const StepCast<float>& step, const ValueRange& format) {
        return step.step == Step::none || sum_to_odd_rounds_safely(fp32_hardware, format);
    };
    if (!follows_odd(steps->sum, sums) || !follows_odd(steps->product, products)) return false;
    const bool odd = !sum_rounds_twice_safely(fp32_hardware, union_range(products, sums),
                                              sums.precision, sums.quantum);

    const std::size_t chunk = kind == Kind::chunked ? options.order.chunk : terms;
    const auto make = [&]<bool Rounded, Step P, Step S, bool Odd, Kind K>() {
        using Rounding = TileRounding<Rounded, P, S, Odd>;
        const Rounding rounding{steps->product, steps->sum};
        const auto with_rows = [&]<int Rows>() {
            const auto grid = TileGrid<Rows>::of(batches, rows, columns);
            if constexpr (K == Kind::pairwise)
                f(PairwiseTile<Rounding, Rows>{a, b, out, terms, grid, rounding});
            else
                f(MatmulTile<Rounding, K == Kind::kahan, Rows>{a, b, out, terms, chunk, grid,
                                                               rounding});
        };
        // A row more on the stack of pairwise sums costs more than it saves.
        if (tall) with_rows.template operator()<K == Kind::pairwise ? 2 : 4>();
        else with_rows.template operator()<1>();
    };
    // Step::none rounds no sum; with Step::bits, which is rare, all sums are rounded to odd.
    const auto with_odd = [&]<bool Rounded, Step P, Step S, Kind K>() {
        if constexpr (S == Step::addition && (Rounded || K != Kind::sequential))
            if (!odd) return make.template operator()<Rounded, P, S, false, K>();
        make.template operator()<Rounded, P, S, S != Step::none, K>();
    };
    const auto with_sum = [&]<bool Rounded, Step P>() {
        with_fp32_step(steps->sum.step, [&]<Step S>() {
            if (kind == Kind::kahan) with_odd.template operator()<Rounded, P, S, Kind::kahan>();
            else if (kind == Kind::pairwise)
                with_odd.template operator()<Rounded, P, S, Kind::pairwise>();
            else with_odd.template operator()<Rounded, P, S, Kind::sequential>();
        });
    };
    if (!options.product) with_sum.template operator()<false, Step::none>();
    else
        with_fp32_step(steps->product.step,
                       [&]<Step P>() { with_sum.template operator()<true, P>(); });
    return true;
}

}  // namespace apscope::detail
