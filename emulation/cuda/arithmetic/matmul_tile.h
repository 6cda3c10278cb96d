// Matrix products whose roundings are all ties_to_even and run in fp32: a thread computes a tile of
// outputs (tile_grid.h), so that a term needs few loads beside its roundings.
//
// A term is a fused multiply-add rounded to odd, and then a rounding of a few operations
// (odd_sum.h). Products, exact or in their format, and sums of fp32 numbers need no other path:
// infinities, NaNs and overflows pass through the same operations.
#pragma once

#include <cstdint>

#include "emulation/arithmetic/kahan.h"
#include "emulation/cuda/arithmetic/odd_sum.h"
#include "emulation/cuda/arithmetic/tile_grid.h"

namespace apscope::detail {

// The roundings of a tile. Rounded: products are rounded by step P, else they are exact. Sums are
// rounded by step S; Odd: those of two rounded numbers must be rounded to odd before it.
template <bool Rounded, Step P, Step S, bool Odd>
struct TileRounding {
    StepCast<float> product, sum;

    // round(s + t)
    APSCOPE_HD float add(float s, float t) const {
        return round_odd<S>(Odd ? fma_to_odd(1.0f, t, s) : s + t, sum);
    }
    // round(s + a b)
    APSCOPE_HD float add_product(float s, float a, float b) const {
        if constexpr (Rounded) return add(s, rounded_product(a, b));
        return S == Step::none ? std::fma(a, b, s) : round_odd<S>(fma_to_odd(a, b, s), sum);
    }
    // round(a b + c d)
    APSCOPE_HD float add_products(float a, float b, float c, float d) const {
        if constexpr (Rounded) return add(rounded_product(a, b), rounded_product(c, d));
        const double odd = add_to_odd(static_cast<double>(a) * static_cast<double>(b),
                                      static_cast<double>(c) * static_cast<double>(d));
        return S == Step::none ? static_cast<float>(odd) : round_odd<S>(narrowed_to_odd(odd), sum);
    }

private:
    APSCOPE_HD float rounded_product(float a, float b) const {
        return P == Step::none ? a * b : round_odd<P>(fma_to_odd(a, b, -0.0f), product);
    }
};

// Sets `out` to the sums in the accumulator's format: Kahan's sums, or sequential sums of chunks. A
// tile has Rows rows.
template <class Rounding, bool Kahan, int Rows>
struct MatmulTile {
    using Grid = TileGrid<Rows>;
    static constexpr int tile_columns = Grid::tile_columns;

    const float *a, *b;  // (batches, rows, terms) and (batches, terms, columns)
    float* out;
    std::uint64_t terms;
    std::uint64_t chunk;  // terms per chunk
    Grid grid;
    Rounding rounding;

    APSCOPE_HD std::uint64_t count() const { return grid.count(); }

    APSCOPE_HD void operator()(std::uint64_t i) const {
        const auto place = grid.place(i);
        if (place.down != 0) compute(place, TileOperands<Rows>(grid, place, a, b, terms));
    }

private:
    using Tile = float[Rows][tile_columns];

    APSCOPE_HD void compute(const typename Grid::Place& place,
                            const TileOperands<Rows>& operands) const {
        // Kahan's errors, or the sums of the chunks so far. A sum begins with -0, which leaves
        // every addend unchanged.
        Tile sum, other;
        for (int r = 0; r < Rows; ++r) {
            for (int j = 0; j < tile_columns; ++j) {
                sum[r][j] = -0.0f;
                other[r][j] = Kahan ? 0.0f : -0.0f;
            }
        }
        for (std::uint64_t k = 0; k < terms;) {
            // The first of Kahan's terms is the first sum, and has no error.
            const std::uint64_t most = Kahan ? (k == 0 ? 1 : terms) : chunk,
                                end = terms - k < most ? terms : k + most;
            for (; k < end; ++k) {
                const auto y = operands.of_columns(k);
                for (int r = 0; r < Rows; ++r) {
                    const float x = operands.left[r][k];
                    for (int j = 0; j < tile_columns; ++j)
                        add_term(x, y.at[j], sum[r][j], other[r][j]);
                }
            }
            for (int r = 0; r < Rows; ++r)
                for (int j = 0; j < tile_columns; ++j) end_chunk(sum[r][j], other[r][j], end);
        }
        for (int r = 0; r < Rows; ++r)
            for (int j = 0; j < tile_columns; ++j)
                if (place.has(r, j))
                    out[grid.index(place, r, j)] = canonicalize_nan_and_zero(
                        Kahan ? sum[r][j] : other[r][j], rounding.sum.zero_sign);
    }

    APSCOPE_HD void add_term(float x, float y, float& sum, float& other) const {
        if constexpr (Kahan) {
            float difference, next;
            kahan_add(0.0f, sum, other, difference, next,
                      [&](float& to, float s, int sign, float t, int number) {
                          to = number == 0 ? rounding.add_product(-t, x, y)
                                           : rounding.add(s, sign < 0 ? -t : t);
                      });
            sum = next;
        } else {
            sum = rounding.add_product(sum, x, y);
        }
    }
    APSCOPE_HD void end_chunk(float& sum, float& other, std::uint64_t end) const {
        if constexpr (Kahan) {
            if (end == 1) other = 0.0f;
        } else {
            other = rounding.add(other, sum);
            sum = -0.0f;
        }
    }
};

}  // namespace apscope::detail
