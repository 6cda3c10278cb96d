// Random words of consecutive elements in bulk: what every stochastic loop draws from. The generator, and which
// bits of a block an element takes, are core/philox.h. Words come as
//
//      std::uint64_t    left-aligned, zeros behind the random bits: RandomStream::at()
//      std::uint32_t    the same in 32 bits, of at most 32 random bits
//      std::uint16_t    of at most 16 random bits, the leading ones of 16; what stands behind them is not cut off
//      double           of at most 53 random bits N, an integer from 0 to 2^N - 1
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/philox.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

inline constexpr std::size_t random_group = 512;  // elements drawn at a time

// The words of blocks first .. first + blocks - 1, as they lie in memory.
APSCOPE_INLINE void philox_words(const RandomStream stream, std::uint64_t first, std::uint64_t blocks, std::uint32_t* words) {
    for (std::uint64_t b = 0; b < blocks; ++b) {
        std::uint64_t c0 = first + b, c1 = (first + b) >> 32, c2 = stream.worker, c3 = stream.stage_and_hop;
        philox_rounds(c0, c1, c2, c3, stream.key);
        words[4 * b] = static_cast<std::uint32_t>(c0);
        words[4 * b + 1] = static_cast<std::uint32_t>(c1);
        words[4 * b + 2] = static_cast<std::uint32_t>(c2);
        words[4 * b + 3] = static_cast<std::uint32_t>(c3);
    }
}

// A slot of 16, 32 or 64 bits, of which the leading `bits` are random, as a word.
template <class Word, class Slot>
APSCOPE_INLINE Word word_of_slot(Slot slot, int bits) {
    constexpr int width = static_cast<int>(8 * sizeof(Slot));
    if constexpr (std::is_same_v<Word, double>) {
        const auto integer = static_cast<Slot>(slot >> (width - bits));
        if constexpr (width == 16) return static_cast<double>(static_cast<std::int32_t>(integer));
        else return static_cast<double>(integer);
    } else {
        constexpr int word_width = static_cast<int>(8 * sizeof(Word));
        return static_cast<Word>(slot) << (word_width - width) & ~Word{0} << (word_width - bits);
    }
}

// The words of elements first .. first + count - 1, at most random_group of them, within a vector loop.
template <class Word>
APSCOPE_INLINE void draw_words(const RandomStream& stream, std::uint64_t first, std::size_t count, Word* out) {
    const int bits = stream.random_bits;
    if constexpr (std::is_same_v<Word, std::uint16_t>) {
        std::uint32_t words[random_group / 2 + 4];
        const std::size_t skipped = first % 8;
        philox_words(stream, first / 8, (skipped + count + 7) / 8, words);
        // Slot j of a block is its j-th run of 16 bits, least significant first: as they lie in memory.
        __builtin_memcpy(out, reinterpret_cast<const unsigned char*>(words) + 2 * skipped, 2 * count);
    } else if (bits <= 16) {
        std::uint16_t slots[random_group];
        draw_words(stream, first, count, slots);
        for (std::size_t i = 0; i < count; ++i) out[i] = word_of_slot<Word>(slots[i], bits);
    } else if (sizeof(Word) == 4 || bits <= 32) {
        std::uint32_t words[random_group + 4];
        const std::size_t skipped = first % 4;
        philox_words(stream, first / 4, (skipped + count + 3) / 4, words);
        for (std::size_t i = 0; i < count; ++i) out[i] = word_of_slot<Word>(words[skipped + i], bits);
    } else if constexpr (sizeof(Word) == 8) {
        std::uint32_t words[2 * random_group + 4];
        const std::size_t skipped = first % 2;
        philox_words(stream, first / 2, (skipped + count + 1) / 2, words);
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t low = words[2 * (skipped + i)], high = words[2 * (skipped + i) + 1];
            out[i] = word_of_slot<Word>(high << 32 | low, bits);
        }
    }
}

// work(begin, n, words of elements first + begin .. first + begin + n - 1) until there were `count`, within a vector loop.
template <class Word, class Work>
APSCOPE_INLINE void for_drawn(const RandomStream& stream, std::uint64_t first, std::size_t count, Work&& work) {
    Word words[random_group];
    for (std::size_t begin = 0; begin < count; begin += random_group) {
        const std::size_t n = count - begin < random_group ? count - begin : random_group;
        draw_words(stream, first + begin, n, words);
        work(begin, n, static_cast<const Word*>(words));
    }
}

// The words of any number of elements: of std::uint32_t, std::uint64_t and double.
template <class Word>
void random_words(const RandomStream& stream, std::uint64_t first, std::size_t count, Word* out);

// work(begin, n, words) as above, outside of a vector loop. Without draws: all elements at once, and no words.
template <class Work>
void for_random_words(bool draws, const RandomStream& stream, std::uint64_t first, std::size_t count, Work&& work) {
    std::uint64_t words[random_group];
    const std::size_t step = draws ? random_group : count;
    for (std::size_t begin = 0; begin < count; begin += step) {
        const std::size_t n = std::min(step, count - begin);
        if (draws) random_words(stream, first + begin, n, words);
        work(begin, n, draws ? static_cast<const std::uint64_t*>(words) : nullptr);
    }
}

// The words of a GPU thread's elements, first .. first + Size - 1, block by block.
template <int Size>
APSCOPE_HD void draw_group(const RandomStream& stream, std::uint64_t first, std::uint64_t (&words)[Size]) {
    const int shift = stream.random_bits <= 16 ? 3 : stream.random_bits <= 32 ? 2 : 1;
    const std::uint64_t last_slot = (std::uint64_t{1} << shift) - 1;
    PhiloxBlock block{};
    for (int j = 0; j < Size; ++j) {
        const std::uint64_t element = first + j;
        if (j == 0 || (element & last_slot) == 0) block = stream.block(element >> shift);
        words[j] = stream.slot(block, static_cast<int>(element & last_slot));
    }
}

}  // namespace apscope::detail
