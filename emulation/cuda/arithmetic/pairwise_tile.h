// Matrix products in the order pairwise, a tile of outputs per thread, with the roundings of
// matmul_tile.h:
//
//      terms       0 1   2 3   4 5   6 7   8 ..   eight terms are added in registers; sums of 8,
//      sums of 2   0+1   2+3   4+5   6+7          16, 32, ... terms lie on a stack in memory, where
//      of 4          0..3        4..7             they are merged like the digits of a binary
//      of 8              0..7                     counter
#pragma once

#include <cstdint>

#include "emulation/cuda/arithmetic/matmul_tile.h"

namespace apscope::detail {

// The stack has sums of 8, 16, ..., 2^22 terms, and of the last 4 and 2.
inline constexpr int pairwise_tile_levels = 22;
inline constexpr std::uint64_t most_pairwise_terms = (std::uint64_t{1} << 23) - 1;

template <class Rounding, int Rows>
struct PairwiseTile {
    using Grid = TileGrid<Rows>;
    static constexpr int across = Grid::tile_columns, outputs = Rows * across;
    struct Sums {
        float of[outputs];
    };

    const float *a, *b;  // (batches, rows, terms) and (batches, terms, columns)
    float* out;
    std::uint64_t terms;  // from 1 to most_pairwise_terms
    Grid grid;
    Rounding rounding;

    APSCOPE_HD std::uint64_t count() const { return grid.count(); }

    APSCOPE_HD void operator()(std::uint64_t i) const {
        const auto place = grid.place(i);
        if (place.down == 0) return;
        const TileOperands<Rows> operands(grid, place, a, b, terms);
        Sums stack[pairwise_tile_levels];
        int depth = 0;
        std::uint64_t k = 0;
        for (; k + 8 <= terms; k += 8) {
            Sums eight = merged(of_four(operands, k), of_four(operands, k + 4));
            for (std::uint64_t done = k / 8 + 1; done % 2 == 0; done /= 2)
                eight = merged(stack[--depth], eight);
            stack[depth++] = eight;
        }
        // The terms that are left, and then the sums on the stack from the last one to the first.
        if (terms - k >= 4) {
            stack[depth++] = of_four(operands, k);
            k += 4;
        }
        if (terms - k >= 2) {
            stack[depth++] = of_two(operands, k);
            k += 2;
        }
        Sums sum;
        for (float& s : sum.of) s = -0.0f;  // which leaves every addend unchanged
        if (depth > 0) sum = stack[--depth];
        if (k < terms) add_term(operands, k, sum);
        while (depth > 0) sum = merged(stack[--depth], sum);
        for (int o = 0; o < outputs; ++o)
            if (place.has(o / across, o % across))
                out[grid.index(place, o / across, o % across)] =
                    canonicalize_nan_and_zero(sum.of[o], rounding.sum.zero_sign);
    }

private:
    APSCOPE_HD Sums merged(const Sums& s, const Sums& t) const {
        Sums sum;
        for (int o = 0; o < outputs; ++o) sum.of[o] = rounding.add(s.of[o], t.of[o]);
        return sum;
    }
    // The sums of terms k and k + 1.
    APSCOPE_HD Sums of_two(const TileOperands<Rows>& operands, std::uint64_t k) const {
        const auto y = operands.of_columns(k), z = operands.of_columns(k + 1);
        Sums sum;
        for (int r = 0; r < Rows; ++r) {
            const float x = operands.left[r][k], w = operands.left[r][k + 1];
            for (int j = 0; j < across; ++j) {
                sum.of[r * across + j] = rounding.add_products(x, y.at[j], w, z.at[j]);
            }
        }
        return sum;
    }
    APSCOPE_HD Sums of_four(const TileOperands<Rows>& operands, std::uint64_t k) const {
        return merged(of_two(operands, k), of_two(operands, k + 2));
    }
    APSCOPE_HD void add_term(const TileOperands<Rows>& operands, std::uint64_t k, Sums& sum) const {
        const auto y = operands.of_columns(k);
        for (int r = 0; r < Rows; ++r)
            for (int j = 0; j < across; ++j)
                sum.of[r * across + j] =
                    rounding.add_product(sum.of[r * across + j], operands.left[r][k], y.at[j]);
    }
};

}  // namespace apscope::detail
