// Makes the step of a matrix product; with_matmul_step() and with_unit_step() call f(step).
// Host only.
#pragma once

#include <stdexcept>
#include <string>

#include "core/float_format.h"
#include "core/limits.h"
#include "emulation/arithmetic/unit_operands.h"
#include "emulation/cuda/arithmetic/matmul_cuda.h"
#include "emulation/cuda/arithmetic/matmul_step.h"
#include "emulation/cuda/arithmetic/tile_choice.h"
#include "emulation/cuda/arithmetic/unit_step.h"
#include "emulation/cuda/arithmetic/unit_tile.h"

namespace apscope::detail {

inline StepRounder make_step_rounder(const FloatFormat& format, const Projection& projection) {
    require_fp32(format, "a sum of fp32 numbers");
    const Rounder r = make_rounder(format, projection);
    return {r.cast, r.operand_floor, r.path(Operation::add) == ArithmeticPath::wide};
}

// Calls f with the step of a matrix unit's order. first_other(x, size, format) returns the index of
// the first of `size` numbers at x that is not a value of the format, number(x, index) that number,
// and range(x, size) the NumberRange of the numbers. The step is UnitTile where it serves; tall:
// its tiles have four rows, otherwise one.
template <class FirstOther, class NumberAt, class RangeOf, class F>
void with_unit_step(const float* a, const float* b, const float* c, float* out, std::size_t batches,
                    std::size_t rows, std::size_t terms, std::size_t columns, bool tall,
                    const MatrixUnitOrder& order, const FirstOther& first_other,
                    const NumberAt& number, const RangeOf& range, F&& f) {
    if (order.unit.scaled != 0)
        throw std::invalid_argument("order=" + limits::clipped(order.text) +
                                    " takes scales, which are not supported on a GPU; give arrays "
                                    "on the CPU");
    const auto smallest = [&](std::size_t operand, const float* x, std::size_t size) {
        return unit_operand_exponent(
            order, operand, [&](const FloatFormat& format) { return first_other(x, size, format); },
            [&](std::size_t index) { return number(x, index); });
    };
    const int smallest_a = smallest(0, a, batches * rows * terms),
              smallest_b = smallest(1, b, batches * terms * columns);
    const UnitChains chains{terms, order.promote, order.split};
    const auto tiles_serve = [&] {
        if (order.unit.rule != MatrixUnit::Rule::aligned || !unit_kernel_serves(order.unit) ||
            order.unit.flush || columns == 0 || rows == 0)
            return false;
        const NumberRange of_a = range(a, batches * rows * terms),
                          of_b = range(b, batches * terms * columns),
                          of_c = c != nullptr ? range(c, batches * rows * columns) : NumberRange();
        return of_a.is_finite() && of_b.is_finite() && addends_fit(of_c) &&
               of_a.significant_bits() + of_b.significant_bits() <= 24 &&
               products_fit(ExponentRange::of(of_a, smallest_a),
                            ExponentRange::of(of_b, smallest_b));
    };
    if (tiles_serve()) {
        const auto with = [&]<int Rows, class Sum>() {
            f(UnitTile<Rows, Sum>{a, b, c, out, terms, TileGrid<Rows>::of(batches, rows, columns),
                                  order.unit, chains, smallest_a, smallest_b});
        };
        const auto with_rows = [&]<int Rows>() {
            if (block_fits_int32(order.unit)) with.template operator()<Rows, std::int32_t>();
            else with.template operator()<Rows, double>();
        };
        if (tall) with_rows.template operator()<4>();
        else with_rows.template operator()<1>();
        return;
    }
    const auto make = [&]<bool Aligned>() {
        f(UnitStep<Aligned>{a, b, c, out, batches, rows, terms, columns, order.unit, chains,
                            smallest_a, smallest_b});
    };
    if (order.unit.rule == MatrixUnit::Rule::aligned) make.template operator()<true>();
    else make.template operator()<false>();
}
inline FindOtherNumber find_other_number(const float* x, std::size_t size,
                                         const FloatFormat& format, unsigned long long* first) {
    return {x, size, make_cast<double>(format, {}), first};
}

// The roundings of another order; throws std::invalid_argument for options that no step serves.
struct MatmulRounders {
    StepRounder sum, product, result;
    bool has_product, has_result;
};
inline MatmulRounders make_matmul_rounders(const SumOptions& options, std::size_t terms) {
    using Kind = SumOrder::Kind;
    if (options.order.kind == Kind::exact) {
        throw std::invalid_argument("order=exact is not supported on a GPU; use sequential, "
                                    "pairwise, chunked:N or kahan, or the CPU");
    }
    if (is_stochastic(options.projection.rounding) && terms >= std::size_t{1} << 26) {
        throw std::invalid_argument(
            "a sum of " + std::to_string(terms) +
            " terms has more stochastic roundings than random streams; use fewer than 2^26 terms");
    }
    const FloatFormat& accumulator = options.accumulate.value_or(options.format);
    const StepRounder sum = make_step_rounder(accumulator, options.projection);
    const bool has_result = accumulator != options.format;
    const StepRounder result =
        has_result ? make_step_rounder(options.format, options.projection) : sum;
    const StepRounder product =
        options.product ? make_step_rounder(*options.product, options.projection) : sum;
    if (!options.product && sum.operand_floor != 0 && options.order.kind == Kind::pairwise) {
        throw std::invalid_argument("order=pairwise adds two products at once, which are exact for "
                                    "fp32 numbers without flushed inputs only; "
                                    "give product, or use another order");
    }
    return {sum, product, result, options.product.has_value(), has_result};
}

// The step of another order.
template <class F>
void with_matmul_step(const float* a, const float* b, float* out, std::size_t batches,
                      std::size_t rows, std::size_t terms, std::size_t columns,
                      const SumOptions& options, F&& f) {
    const MatmulRounders r = make_matmul_rounders(options, terms);
    const auto make = [&]<bool Nearest, bool Pairwise>() {
        f(MatmulStep<Nearest, Pairwise>{a, b, out, batches, rows, terms, columns,
                                        options.order.kind, options.order.chunk, r.sum, r.product,
                                        r.result, r.has_product, r.has_result,
                                        seed_key(options.seed), options.projection.random_bits});
    };
    const bool plain = is_plain(r.sum.cast) && is_plain(r.product.cast) &&
                       is_plain(r.result.cast) && r.sum.operand_floor == 0;
    const bool nearest =
        options.projection.rounding == RoundingMode::ties_to_even && plain && !r.sum.wide;
    const bool pairwise = options.order.kind == SumOrder::Kind::pairwise;
    if (nearest && pairwise) make.template operator()<true, true>();
    else if (nearest) make.template operator()<true, false>();
    else if (pairwise) make.template operator()<false, true>();
    else make.template operator()<false, false>();
}

}  // namespace apscope::detail
