// Sub-byte packing: codes of 1 to 8 bits without gaps. Little-endian bit order: the bytes are one
// long binary number, lowest byte first, and code i occupies its bits i b .. i b + b - 1, low bit
// first; the unused high bits of a line's last byte are 0. Two 4-bit codes thus share a byte, the
// first in the low nibble.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace apscope::detail {

// The number of bytes that `count` codes of `bits` bits take.
std::size_t packed_size(std::size_t count, int bits);

// Packs `lines` equally long runs of codes, each of which starts at a whole byte. A code of more
// than `bits` bits is refused (std::invalid_argument), and nothing is written then.
void pack(std::span<const std::uint8_t> codes, std::span<std::uint8_t> bytes, std::size_t lines,
          int bits);
// Unpacks the bytes that pack() writes; the unused bits of a line's last byte are not read.
void unpack(std::span<const std::uint8_t> bytes, std::span<std::uint8_t> codes, std::size_t lines,
            int bits);

}  // namespace apscope::detail
