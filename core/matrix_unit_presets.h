// Matrix units by name, what is known of them, and the order of additions "unit:...".
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/matrix_unit.h"

namespace apscope::detail {

struct MatrixUnitPreset {
    std::string_view name, instruction;
    std::string_view inputs;  // names of the operands' formats, separated by blanks
    MatrixUnit unit;
    std::string_view evidence;
    std::string_view scales = {};  // the format of scales; none without scales
};
std::span<const MatrixUnitPreset> matrix_unit_presets();

// Devices that have no preset, and why.
struct MissingMatrixUnit {
    std::string_view name, reason;
};
std::span<const MissingMatrixUnit> missing_matrix_units();
// Returns the preset of this name; throws std::invalid_argument if there is none, and says why.
const MatrixUnitPreset& matrix_unit_preset(std::string_view name);

// An order of additions: blocks of consecutive k, chained through C.
struct MatrixUnitOrder {
    MatrixUnit unit;
    // Formats of a and of b. Each operand has the first of which all its numbers are values. With
    // none, operands are any fp32 numbers.
    std::array<std::vector<std::string>, 2> inputs;
    std::size_t promote =
        0;                  // terms of a chain from +0, whose result is added in fp32; 0: one chain
    std::size_t split = 0;  // the number of such chains; 0: one chain that begins at C
    std::string text;       // as parsed, for messages
    std::string scales;     // the format of scales; empty without scales
};
// The scales of order.unit.scaled consecutive terms each: of a (batches, rows, pieces), of b
// (batches, pieces, columns), in C order.
template <class Real>
struct UnitScales {
    std::span<const Real> a, b;
};
// Parses what follows "unit:": PRESET, or k=N,fraction=N,result=N, and further keys. k is the
// number of products of an instruction, of which an interleave makes two blocks: c=term|last,
// interleave=none|mod4|even_odd, result_rounding=toward_zero|ties_to_even, subnormals=keep|flush,
// format=fp32|fp16, inputs=FORMAT or inputs=A*B, promote=N, split=N. Throws std::invalid_argument.
MatrixUnitOrder parse_matrix_unit_order(std::string_view text);

}  // namespace apscope::detail
