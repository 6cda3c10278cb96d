// Tiles of outputs of matrix products, one per thread.
//
//      columns   0      4      8         128
//      row 0     |lane 0|lane 1|lane 2 ..|     a panel has the columns of a warp's 32 lanes; the
//      row Rows  |    next warp          |     warps of a block take the tiles below each other,
//                                              so that they read the same rows of b
//
// Rows and columns beyond the matrix are computed from operands inside it or from zeros, and are
// not written.
#pragma once

#include <cstdint>

#include "emulation/cuda/cast/element_group.h"

namespace apscope::detail {

template <int Rows>
struct TileGrid {
    static constexpr int tile_rows = Rows, tile_columns = 4;

    std::uint64_t batches, rows, columns;
    std::uint64_t panels, lanes;  // panels of this many tiles side by side

    // Host only.
    static TileGrid of(std::uint64_t batches, std::uint64_t rows, std::uint64_t columns) {
        constexpr std::uint64_t warp = 32;
        const auto parts = [](std::uint64_t n, std::uint64_t size) {
            return (n + size - 1) / size;
        };
        const std::uint64_t tiles = parts(columns, tile_columns), panels = parts(tiles, warp);
        return {batches, rows, columns, panels, panels == 0 ? 0 : parts(tiles, panels)};
    }
    APSCOPE_HD std::uint64_t tiles_down() const { return (rows + tile_rows - 1) / tile_rows; }
    APSCOPE_HD std::uint64_t count() const { return batches * panels * tiles_down() * lanes; }

    // The outputs of a thread: rows row .. row + down - 1, columns column .. column + across - 1.
    struct Place {
        std::uint64_t batch, row, column, down, across;
        APSCOPE_HD bool has(int r, int j) const {
            return static_cast<std::uint64_t>(r) < down && static_cast<std::uint64_t>(j) < across;
        }
    };
    // Without outputs if `down` is 0.
    APSCOPE_HD Place place(std::uint64_t i) const {
        const std::uint64_t batch = i / (panels * tiles_down() * lanes),
                            panel = i / (tiles_down() * lanes) % panels,
                            row = i / lanes % tiles_down() * tile_rows,
                            column = (panel * lanes + i % lanes) * tile_columns;
        if (column >= columns) return {};
        return {batch, row, column, rows - row < tile_rows ? rows - row : tile_rows,
                columns - column < tile_columns ? columns - column : tile_columns};
    }
    // The index of an output.
    APSCOPE_HD std::uint64_t index(const Place& place, int r, int j) const {
        return (place.batch * rows + place.row + static_cast<std::uint64_t>(r)) * columns +
               place.column + static_cast<std::uint64_t>(j);
    }
};

// The operands of a tile: a has the shape (batches, rows, terms), b (batches, terms, columns).
template <int Rows>
struct TileOperands {
    using Columns = Packed<float, TileGrid<Rows>::tile_columns>;

    const float* left[Rows];
    const float* right;
    std::uint64_t columns, across;
    bool is_wide;  // four columns are one access

    APSCOPE_HD TileOperands(const TileGrid<Rows>& grid, const typename TileGrid<Rows>::Place& place,
                            const float* a, const float* b, std::uint64_t terms)
        : right(b + place.batch * terms * grid.columns + place.column), columns(grid.columns),
          across(place.across),
          is_wide(across == grid.tile_columns && columns % grid.tile_columns == 0 &&
                  is_aligned<float, TileGrid<Rows>::tile_columns>(b)) {
        for (int r = 0; r < Rows; ++r) {
            const std::uint64_t inside =
                static_cast<std::uint64_t>(r) < place.down ? r : place.down - 1;
            left[r] = a + (place.batch * grid.rows + place.row + inside) * terms;
        }
    }
    // b's numbers of a term.
    APSCOPE_HD Columns of_columns(std::uint64_t term) const {
        const float* const from = right + term * columns;
        if (is_wide) return load_packed<float, TileGrid<Rows>::tile_columns>(from);
        Columns y;
        for (int j = 0; j < TileGrid<Rows>::tile_columns; ++j)
            y.at[j] = static_cast<std::uint64_t>(j) < across ? from[j] : 0.0f;
        return y;
    }
};

}  // namespace apscope::detail
