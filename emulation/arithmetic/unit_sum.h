// Sums of products as a matrix unit adds them (core/matrix_unit.h): the order "unit:...".
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "core/float_format.h"
#include "core/matrix_unit_presets.h"

namespace apscope::detail {

// The exponent of the smallest normal number of the operand's format: the first of order.inputs[i]
// of which all numbers are values, or fp32 if the order names none. first_other(format) is the
// index of the first number that is not a value of the format; number(index) is that number. Throws
// std::invalid_argument if there is one for every format.
int unit_operand_exponent(
    const MatrixUnitOrder& order, std::size_t operand,
    const std::function<std::optional<std::size_t>(const FloatFormat&)>& first_other,
    const std::function<float(std::size_t)>& number);

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
