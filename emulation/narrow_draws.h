// Random integers of at most 32 bits for consecutive elements, a buffer at a time, as vector code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/philox.h"
#include "emulation/simd.h"

namespace apscope {

class NarrowDraws {
public:
    static constexpr std::size_t size = 512;  // elements in a buffer

    APSCOPE_INLINE explicit NarrowDraws(const RandomStream& stream) : stream_(stream) {}
    // The integers of elements first .. first + n - 1, left-aligned in 32 bits; n <= size, and `first` begins a
    // block of the stream.
    APSCOPE_INLINE const std::uint32_t* at(std::uint64_t first, std::size_t n) {
        const auto slots = static_cast<std::uint64_t>(RandomStream::slots(stream_.random_bits));
        philox_words(stream_, first / slots, (n + slots - 1) / slots, words_);
        const std::uint32_t mask = ~std::uint32_t{0} << (32 - stream_.random_bits);
        // Slot j of a block is its j-th run of 16 or 32 bits, least significant first: as the words lie in memory.
        if (stream_.random_bits > 16) {
            for (std::size_t i = 0; i < n; ++i) drawn_[i] = words_[i] & mask;
        } else {
            std::uint16_t halves[size];
            __builtin_memcpy(halves, words_, sizeof halves);
            for (std::size_t i = 0; i < n; ++i) drawn_[i] = (static_cast<std::uint32_t>(halves[i]) << 16) & mask;
        }
        return drawn_;
    }

private:
    RandomStream stream_;
    std::uint32_t words_[size] = {}, drawn_[size];
};

}  // namespace apscope
