// Sums of products as a matrix unit adds them (core/matrix_unit.h): the order "unit:...".
#pragma once

#include <cstddef>
#include <span>

#include "core/matrix_unit_presets.h"

namespace apscope::detail {

// Strides of batches of matrix products in C order; a dot product over the first axis is `batches`
// products of one row and one column, whose terms are not side by side.
struct UnitProduct {
    struct Strides {
        std::size_t batch, outer, term;  // outer: row of a, column of b
    };
    std::size_t batches, rows, terms, columns;
    Strides a, b;
};

// out[h][i][j] = c[h][i][j] + the sum over k of a[h][i][k] b[h][k][j]; an empty c is +0. `scales`
// are those of an order that has some; a dot product over the first axis takes none. `fast`: false
// selects the path that applies core/matrix_unit.h's rule to every output. Returns whether the fast
// path served. Throws std::invalid_argument for operands that are not values of the order's
// formats.
bool unit_product(std::span<const float> a, std::span<const float> b, std::span<const float> c,
                  std::span<float> out, const UnitProduct& sizes, const MatrixUnitOrder& order,
                  int threads, const UnitScales<float>& scales = {}, bool fast = true);

}  // namespace apscope::detail
