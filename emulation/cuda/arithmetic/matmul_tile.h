// Matrix products whose roundings are all ties_to_even and run in fp32: a thread computes a tile of
// outputs, so that a term needs few loads beside its roundings.
//
//      columns   0      4      8         128
//      row 0     |lane 0|lane 1|lane 2 ..|     a panel has the columns of a warp's 32 lanes; the
//      row Rows  |    next warp          |     warps of a block take the tiles below each other,
//                                              so that they read the same rows of b
//
// A term is a fused multiply-add rounded to odd, and then a rounding of a few operations
// (odd_sum.h). Products, exact or in their format, and sums of fp32 numbers need no other path:
// infinities, NaNs and overflows pass through the same operations.
#pragma once

#include <cstdint>

#include "emulation/arithmetic/kahan.h"
#include "emulation/cuda/arithmetic/odd_sum.h"
#include "emulation/cuda/cast/element_group.h"

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
        if constexpr (!Rounded) {
            return S == Step::none ? std::fma(a, b, s) : round_odd<S>(fma_to_odd(a, b, s), sum);
        } else {
            return add(s, P == Step::none ? a * b : round_odd<P>(fma_to_odd(a, b, -0.0f), product));
        }
    }
};

// Sets `out` to the sums in the accumulator's format: Kahan's sums, or sequential sums of chunks. A
// tile has Rows rows.
template <class Rounding, bool Kahan, int Rows>
struct MatmulTile {
    static constexpr int tile_rows = Rows, tile_columns = 4;

    const float *a, *b;  // (batches, rows, terms) and (batches, terms, columns)
    float* out;
    std::uint64_t batches, rows, terms, columns;
    std::uint64_t chunk;          // terms per chunk
    std::uint64_t panels, lanes;  // panels of this many tiles side by side
    Rounding rounding;

    APSCOPE_HD std::uint64_t tiles_down() const { return (rows + tile_rows - 1) / tile_rows; }
    APSCOPE_HD std::uint64_t count() const { return batches * panels * tiles_down() * lanes; }

    APSCOPE_HD void operator()(std::uint64_t i) const {
        const std::uint64_t batch = i / (panels * tiles_down() * lanes),
                            panel = i / (tiles_down() * lanes) % panels;
        const Place place{batch, i / lanes % tiles_down() * tile_rows,
                          (panel * lanes + i % lanes) * tile_columns};
        if (place.column < columns) compute(place);
    }

private:
    struct Place {
        std::uint64_t batch, row, column;
    };
    using Tile = float[tile_rows][tile_columns];

    // Rows and columns beyond the matrix are computed from operands inside it or from zeros, and
    // are not written.
    APSCOPE_HD void compute(const Place& place) const {
        const std::uint64_t down = rows - place.row < tile_rows ? rows - place.row : tile_rows,
                            across = columns - place.column < tile_columns ? columns - place.column
                                                                           : tile_columns;
        const float* left[tile_rows];
        for (int r = 0; r < tile_rows; ++r) {
            const std::uint64_t inside = static_cast<std::uint64_t>(r) < down ? r : down - 1;
            left[r] = a + (place.batch * rows + place.row + inside) * terms;
        }
        const float* right = b + place.batch * terms * columns + place.column;
        const bool is_wide = across == tile_columns && columns % tile_columns == 0 &&
                             is_aligned<float, tile_columns>(b);

        // Kahan's errors, or the sums of the chunks so far. A sum begins with -0, which leaves
        // every addend unchanged.
        Tile sum, other;
        for (int r = 0; r < tile_rows; ++r) {
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
                Packed<float, tile_columns> y;
                if (is_wide) y = load_packed<float, tile_columns>(right);
                else
                    for (int j = 0; j < tile_columns; ++j)
                        y.at[j] = static_cast<std::uint64_t>(j) < across ? right[j] : 0.0f;
                for (int r = 0; r < tile_rows; ++r) {
                    const float x = *left[r]++;
                    for (int j = 0; j < tile_columns; ++j)
                        add_term(x, y.at[j], sum[r][j], other[r][j]);
                }
                right += columns;
            }
            for (int r = 0; r < tile_rows; ++r)
                for (int j = 0; j < tile_columns; ++j) end_chunk(sum[r][j], other[r][j], end);
        }
        for (int r = 0; r < tile_rows; ++r) {
            if (static_cast<std::uint64_t>(r) >= down) break;
            float* const to =
                out + (place.batch * rows + place.row + static_cast<std::uint64_t>(r)) * columns +
                place.column;
            for (int j = 0; j < tile_columns; ++j)
                if (static_cast<std::uint64_t>(j) < across)
                    to[j] = canonicalize_nan_and_zero(Kahan ? sum[r][j] : other[r][j],
                                                      rounding.sum.zero_sign);
        }
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
