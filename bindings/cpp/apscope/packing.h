// pack and unpack: codes of 1 to 8 bits without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "export.h"

namespace apscope {

/// @addtogroup blocks Block formats
/// @{

/// Puts codes of 1 to 8 bits side by side without gaps, as `apscope.pack` in Python. Code i of a
/// line occupies the bits i b to i b + b - 1 of the line's bytes, b = `bits`, low bit first; the
/// unused high bits of a line's last byte are 0. Two codes of 4 bits share a byte, the first in the
/// low nibble.
/// @param codes  `lines` equally long lines, one after another; each code is below 2^bits.
/// @param bits   The width of a code, 1 to 8.
/// @param lines  The number of lines; each begins at a whole byte.
/// @returns ceil(length bits / 8) bytes per line.
/// @throws std::invalid_argument  A code that is too wide, `bits` outside 1 to 8, a number of codes
///                                that `lines` does not divide.
APSCOPE_API std::vector<std::uint8_t> pack(std::span<const std::uint8_t> codes, int bits,
                                           std::size_t lines = 1);

/// The inverse of pack().
/// @param bytes  The packed lines, one after another.
/// @param bits   The width of a code, 1 to 8.
/// @param count  The number of codes of a line.
/// @param lines  The number of lines.
/// @throws std::invalid_argument  A number of bytes that is not that of the lines; `bits` outside 1
///                                to 8.
APSCOPE_API std::vector<std::uint8_t> unpack(std::span<const std::uint8_t> bytes, int bits,
                                             std::size_t count, std::size_t lines = 1);

/// @}

}  // namespace apscope
