// Random integers of at most 32 bits for consecutive elements, a buffer at a time, as vector code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/philox.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// The words of consecutive blocks, as they lie in memory. The same arithmetic as philox(), in 64-bit lanes
// whose upper halves are left full of what the next multiplication ignores: loops over it become vector code.
APSCOPE_HD void philox_words(const RandomStream stream, std::uint64_t first, std::uint64_t blocks, std::uint32_t* words) {
    constexpr std::uint64_t low = 0xFFFFFFFF;
    for (std::uint64_t b = 0; b < blocks; ++b) {
        std::uint64_t c0 = first + b, c1 = (first + b) >> 32, c2 = stream.worker, c3 = stream.stage_and_hop;
        std::uint32_t key0 = stream.key.low, key1 = stream.key.high;
        for (int round = 0; round < 10; ++round) {
            const std::uint64_t product0 = (c0 & low) * 0xD2511F53u, product1 = (c2 & low) * 0xCD9E8D57u;
            c0 = (product1 >> 32) ^ c1 ^ key0;
            c1 = product1;
            c2 = (product0 >> 32) ^ c3 ^ key1;
            c3 = product0;
            key0 += 0x9E3779B9u;
            key1 += 0xBB67AE85u;
        }
        words[4 * b] = static_cast<std::uint32_t>(c0);
        words[4 * b + 1] = static_cast<std::uint32_t>(c1);
        words[4 * b + 2] = static_cast<std::uint32_t>(c2);
        words[4 * b + 3] = static_cast<std::uint32_t>(c3);
    }
}

class NarrowDraws {
public:
    static constexpr std::size_t size = 512;  // elements in a buffer

    APSCOPE_INLINE explicit NarrowDraws(const RandomStream& stream) : stream_(stream) {}
    // The integers of elements first .. first + n - 1, in 16 bits each, of which the leading random_bits count;
    // n <= size, and `first` begins a block of the stream. Slot j of a block is its j-th run of 16 bits, least
    // significant first: as the words lie in memory.
    APSCOPE_INLINE const std::uint16_t* halves_at(std::uint64_t first, std::size_t n) {
        philox_words(stream_, first / 8, (n + 7) / 8, words_);
        __builtin_memcpy(halves_, words_, sizeof halves_);
        return halves_;
    }
    // The same left-aligned in 32 bits, with zeros behind the random_bits.
    APSCOPE_INLINE const std::uint32_t* at(std::uint64_t first, std::size_t n) {
        const std::uint32_t mask = ~std::uint32_t{0} << (32 - stream_.random_bits);
        if (stream_.random_bits > 16) {
            philox_words(stream_, first / 4, (n + 3) / 4, words_);
            for (std::size_t i = 0; i < n; ++i) drawn_[i] = words_[i] & mask;
        } else {
            const std::uint16_t* halves = halves_at(first, n);
            for (std::size_t i = 0; i < n; ++i) drawn_[i] = (static_cast<std::uint32_t>(halves[i]) << 16) & mask;
        }
        return drawn_;
    }

private:
    RandomStream stream_;
    std::uint32_t words_[size] = {}, drawn_[size];
    std::uint16_t halves_[size];
};

}  // namespace apscope::detail
