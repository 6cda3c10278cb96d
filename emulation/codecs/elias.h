// Elias omega codes: whole numbers from 1 on, short ones for small numbers. The binary digits of the number,
// before them those of their length less one, and so on down to 1; a 0 at the end.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "emulation/codecs/bits.h"

namespace apscope {

inline int elias_bits(std::uint64_t number) {
    int bits = 1;
    for (std::uint64_t n = number; n > 1;) {
        const int width = std::bit_width(n);
        bits += width;
        n = static_cast<std::uint64_t>(width - 1);
    }
    return bits;
}

inline void put_elias(BitWriter& bits, std::uint64_t number) {
    std::vector<std::uint64_t> groups;  // the last comes first
    for (std::uint64_t n = number; n > 1; n = static_cast<std::uint64_t>(std::bit_width(n) - 1)) groups.push_back(n);
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
        for (int bit = std::bit_width(*group) - 1; bit >= 0; --bit) bits.put(*group >> bit & 1, 1);  // the leading 1 first
    }
    bits.put(0, 1);
}

inline std::uint64_t get_elias(BitReader& bits) {
    std::uint64_t number = 1;
    while (bits.get(1) == 1) {
        std::uint64_t group = 1;
        for (std::uint64_t left = number; left > 0; --left) group = group << 1 | bits.get(1);
        number = group;
    }
    return number;
}

}  // namespace apscope
