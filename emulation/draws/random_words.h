// Draws the random words of many consecutive elements, for all stochastic loops. core/philox.h
// defines the generator and the bits of a block that belong to an element. The type of a word is
// one of
//
//      std::uint64_t    left-aligned, zeros behind the random bits: RandomStream::at()
//      std::uint32_t    the same in 32 bits, of at most 32 random bits
//      std::uint16_t    the same in 16 bits, of at most 16 random bits
//      double           of at most 53 random bits N, an integer from 0 to 2^N - 1
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/philox.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

inline constexpr std::size_t random_group = 512;  // the number of elements per group

// Draws the words of elements first .. first + count - 1, modulo 2^64, for any count. `numbers`,
// unless null, points to the elements, which are prefetched while the words are computed.
template <class Word>
void random_words(const RandomStream& stream, std::uint64_t first, std::size_t count, Word* out,
                  const float* numbers = nullptr);

// Calls work(begin, n, words) for one group of elements after another; `words` has the words of
// elements first + begin .. first + begin + n - 1.
template <class Word, class Work>
APSCOPE_INLINE void for_drawn(const RandomStream& stream, std::uint64_t first, std::size_t count,
                              Work&& work, const float* numbers = nullptr) {
    // The words of a group occupy at most 4 KiB.
    constexpr std::size_t group = sizeof(Word) == 2 ? 4 * random_group : random_group;
    alignas(64) Word words[group];
    for (std::size_t begin = 0; begin < count; begin += group) {
        const std::size_t n = count - begin < group ? count - begin : group;
        random_words(stream, first + begin, n, words,
                     numbers == nullptr ? nullptr : numbers + begin);
        work(begin, n, static_cast<const Word*>(words));
    }
}

// Does the same if `draws` is true. If it is false, calls work() once, for all elements, with null
// for the words.
template <class Work>
void for_random_words(bool draws, const RandomStream& stream, std::uint64_t first,
                      std::size_t count, Work&& work) {
    if (draws) for_drawn<std::uint64_t>(stream, first, count, work);
    else work(0, count, static_cast<const std::uint64_t*>(nullptr));
}

// Draws the words of a GPU thread's elements, first .. first + Size - 1, block by block; `first` is
// a multiple of Size, a power of two.
template <int Slots, int Size>
APSCOPE_HD void draw_slots(const RandomStream& stream, std::uint64_t first,
                           std::uint64_t (&words)[Size]) {
    constexpr int drawn = Size < Slots ? Size : Slots;  // of a block
    const int slot = Size < Slots ? static_cast<int>(first % Slots) : 0;
    for (int j = 0; j < Size; j += drawn) {
        const PhiloxBlock block = stream.block((first + static_cast<std::uint64_t>(j)) / Slots);
        for (int k = 0; k < drawn; ++k)
            words[j + k] = stream.template slot_of<Slots>(block, slot + k);
    }
}
template <int Size>
APSCOPE_HD void draw_group(const RandomStream& stream, std::uint64_t first,
                           std::uint64_t (&words)[Size]) {
    if (stream.random_bits <= 16) draw_slots<8>(stream, first, words);
    else if (stream.random_bits <= 32) draw_slots<4>(stream, first, words);
    else draw_slots<2>(stream, first, words);
}

}  // namespace apscope::detail
