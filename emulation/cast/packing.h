// Sub-byte packing: codes of 1 to 8 bits without gaps. The bit order is little-endian: the bytes of
// a line are one binary number, lowest byte first, in which code i of b bits occupies bits i b .. i
// b + b - 1. The unused high bits of a line's last byte are 0. Two 4-bit codes thus share a byte,
// the first in the low nibble.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace apscope::detail {

// The number of bytes for `count` codes of `bits` bits.
std::size_t packed_size(std::size_t count, int bits);

// Packs `lines` equally long lines of codes, each of which starts at a new byte. Throws
// std::invalid_argument for a code of more than `bits` bits; then nothing has been written.
void pack(std::span<const std::uint8_t> codes, std::span<std::uint8_t> bytes, std::size_t lines,
          int bits);
// Unpacks the bytes that pack() writes; the unused bits of a line's last byte are not read.
void unpack(std::span<const std::uint8_t> bytes, std::span<std::uint8_t> codes, std::size_t lines,
            int bits);

}  // namespace apscope::detail
