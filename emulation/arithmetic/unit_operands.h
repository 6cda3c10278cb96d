// What a matrix unit's order asks of its operands: values of its formats, and scales.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>

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
// Does the same for numbers in the CPU's memory.
int unit_operand_exponent(std::span<const float> x, const MatrixUnitOrder& order,
                          std::size_t operand, int threads);

// Throws std::invalid_argument unless the scales are those that the order needs: none, or one for
// every order.unit.scaled terms, each a positive value or 0 of their format, or NaN.
void check_unit_scales(const UnitScales<float>& scales, const MatrixUnitOrder& order,
                       std::size_t batches, std::size_t rows, std::size_t terms,
                       std::size_t columns);

}  // namespace apscope::detail
