// Packs ternary digits -1, 0, 1 as 3LC does: five digits in a byte, and a run of zero bytes in one.
//
//      byte      sum over j = 0..4 of (digit j + 1) 3^(4 - j), at most 242; the row is padded with
//                zeros to a multiple of 5
//      zero byte 121, five zeros
//      243..255  a run of 2 to 14 zero bytes: 241 plus the length of the run
//
// A run of more than 14 zero bytes is several runs of 14 and a rest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "emulation/schemes/codecs/bits.h"

namespace apscope::detail {

inline void put_ternary_bytes(BitWriter& bits, std::span<const double> digits) {
    constexpr std::uint64_t zero_byte = 121, longest_run = 14;
    std::uint64_t run = 0;  // zero bytes that are not written yet
    const auto write_run = [&] {
        while (run > 0) {
            const std::uint64_t length = std::min(run, longest_run);
            bits.put(length == 1 ? zero_byte : 241 + length, 8);
            run -= length;
        }
    };
    for (std::size_t first = 0; first < digits.size(); first += 5) {
        std::uint64_t byte = 0;
        for (std::size_t i = first; i < first + 5; ++i) {
            const double digit = i < digits.size() ? digits[i] : 0.0;
            byte = 3 * byte + static_cast<std::uint64_t>(digit + 1.0);
        }
        if (byte == zero_byte) {
            ++run;
            continue;
        }
        write_run();
        bits.put(byte, 8);
    }
    write_run();
}

}  // namespace apscope::detail
