#include "emulation/cast/packing.h"

#include <stdexcept>
#include <string>

namespace apscope::detail {

namespace {

// The number of codes and of bytes in one line.
struct Lengths {
    std::size_t codes, bytes;
};

Lengths check(std::size_t codes, std::size_t bytes, std::size_t lines, int bits) {
    const std::size_t length = lines == 0 ? 0 : codes / lines;
    const std::size_t packed = packed_size(length, bits);
    if (length * lines != codes || packed * lines != bytes) {
        throw std::invalid_argument(std::to_string(codes) + " codes of " + std::to_string(bits) +
                                    " bits in " + std::to_string(lines) + " lines take " +
                                    std::to_string(packed * lines) + " bytes, not " +
                                    std::to_string(bytes));
    }
    return {length, packed};
}

}  // namespace

std::size_t packed_size(std::size_t count, int bits) {
    if (bits < 1 || bits > 8)
        throw std::invalid_argument("bits=" + std::to_string(bits) + " is not between 1 and 8");
    // 8 codes fill `bits` bytes. Computed in this order, no product overflows.
    return count / 8 * static_cast<std::size_t>(bits) +
           (count % 8 * static_cast<std::size_t>(bits) + 7) / 8;
}

void pack(std::span<const std::uint8_t> codes, std::span<std::uint8_t> bytes, std::size_t lines,
          int bits) {
    const Lengths line = check(codes.size(), bytes.size(), lines, bits);
    for (std::size_t i = 0; i < codes.size(); ++i) {
        if (codes[i] >> bits != 0) {
            throw std::invalid_argument("code " + std::to_string(codes[i]) + " at element " +
                                        std::to_string(i) + " has more than " +
                                        std::to_string(bits) + " bits");
        }
    }
    for (std::size_t l = 0; l < lines; ++l) {
        const std::uint8_t* in = codes.data() + l * line.codes;
        std::uint8_t* out = bytes.data() + l * line.bytes;
        unsigned pending = 0;
        int held = 0;  // bits of `pending` not yet written, at most 7 between codes
        for (std::size_t i = 0; i < line.codes; ++i) {
            pending |= static_cast<unsigned>(in[i]) << held;
            held += bits;
            if (held >= 8) {
                *out++ = static_cast<std::uint8_t>(pending);
                pending >>= 8;
                held -= 8;
            }
        }
        if (held > 0) *out = static_cast<std::uint8_t>(pending);
    }
}

void unpack(std::span<const std::uint8_t> bytes, std::span<std::uint8_t> codes, std::size_t lines,
            int bits) {
    const Lengths line = check(codes.size(), bytes.size(), lines, bits);
    const unsigned mask = (1u << bits) - 1;
    for (std::size_t l = 0; l < lines; ++l) {
        const std::uint8_t* in = bytes.data() + l * line.bytes;
        std::uint8_t* out = codes.data() + l * line.codes;
        unsigned pending = 0;
        int held = 0;
        for (std::size_t i = 0; i < line.codes; ++i) {
            if (held < bits) {
                pending |= static_cast<unsigned>(*in++) << held;
                held += 8;
            }
            out[i] = static_cast<std::uint8_t>(pending & mask);
            pending >>= bits;
            held -= bits;
        }
    }
}

}  // namespace apscope::detail
