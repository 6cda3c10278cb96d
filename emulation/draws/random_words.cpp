#include "emulation/draws/random_words.h"

#include <algorithm>
#include <type_traits>

#include "emulation/draws/philox_words.h"

namespace apscope::detail {

namespace {

// Converts a slot of 16, 32 or 64 bits, of which the leading `bits` are random, to a word.
template <class Word, class Slot>
APSCOPE_INLINE Word word_of_slot(Slot slot, int bits) {
    constexpr int width = static_cast<int>(8 * sizeof(Slot));
    if constexpr (std::is_same_v<Word, double>) {
        const auto integer = static_cast<Slot>(slot >> (width - bits));
        if constexpr (width == 16) return static_cast<double>(static_cast<std::int32_t>(integer));
        else return static_cast<double>(integer);
    } else {
        constexpr int word_width = static_cast<int>(8 * sizeof(Word));
        return static_cast<Word>(static_cast<Word>(slot) << (word_width - width) &
                                 ~Word{0} << (word_width - bits));
    }
}

template <class Word, class Slot>
struct WordsOfSlots {
    static APSCOPE_INLINE void run(const Slot* slots, std::size_t count, int bits, Word* out) {
        for (std::size_t i = 0; i < count; ++i) out[i] = word_of_slot<Word>(slots[i], bits);
    }
};

ReadNext read_next(const float* numbers, std::size_t in_block) {
    if (numbers == nullptr) return {};
    return {numbers, in_block * sizeof(float)};
}

// The slots of a group of elements. Slot j of a block is its j-th run of bits, least significant
// word first, which is also the order in memory, so the slots of several blocks follow one another.
// `first` points to the slot of the first of at most random_group elements.
template <class Slot>
struct Slots {
    static constexpr std::size_t in_block = 16 / sizeof(Slot);
    alignas(64) Slot drawn[random_group + 2 * in_block];
    const Slot* first;

    Slots(const RandomStream& stream, std::uint64_t element, std::size_t count,
          const float* numbers) {
        const std::size_t skipped = element % in_block;
        philox_words(stream, element / in_block, (skipped + count + in_block - 1) / in_block, drawn,
                     read_next(numbers, in_block));
        first = drawn + skipped;
    }
};

template <class Word, class Slot>
void draw_words(const RandomStream& stream, std::uint64_t first, std::size_t count, Word* out,
                const float* numbers) {
    const Slots<Slot> slots(stream, first, count, numbers);
    simd::run<WordsOfSlots<Word, Slot>>(slots.first, count, stream.random_bits, out);
}

// If the indices of the elements wrap from 2^64 - 1 to 0, because the range begins before element 0
// of a row, draws the words in two parts and returns true.
template <class Word>
bool drawn_over_zero(const RandomStream& stream, std::uint64_t first, std::size_t count, Word* out,
                     const float* numbers) {
    const std::uint64_t before = std::uint64_t{0} - first;
    if (first == 0 || before >= count) return false;
    random_words(stream, first, before, out, numbers);
    random_words(stream, 0, count - before, out + before,
                 numbers == nullptr ? nullptr : numbers + before);
    return true;
}

// Makes the words of a stream with strata correlated.
template <class Word>
void stratify(const RandomStream& stream, std::uint64_t first, std::size_t count, Word* words) {
    if (stream.strata <= 1) return;
    for (std::size_t i = 0; i < count; ++i) {
        if constexpr (std::is_same_v<Word, double>) {
            const int unused = 64 - stream.random_bits;
            const std::uint64_t word = static_cast<std::uint64_t>(words[i]) << unused;
            words[i] = static_cast<double>(stream.stratified(word, first + i) >> unused);
        } else {
            constexpr int unused = 64 - static_cast<int>(8 * sizeof(Word));
            const std::uint64_t word = std::uint64_t{words[i]} << unused;
            words[i] = static_cast<Word>(stream.stratified(word, first + i) >> unused);
        }
    }
}

}  // namespace

template <class Word>
void random_words(const RandomStream& stream, std::uint64_t first, std::size_t count, Word* out,
                  const float* numbers) {
    if (drawn_over_zero(stream, first, count, out, numbers)) return;
    for (std::size_t begin = 0; begin < count; begin += random_group) {
        const std::size_t n = std::min(random_group, count - begin);
        const float* part = numbers == nullptr ? nullptr : numbers + begin;
        if (stream.random_bits <= 16)
            draw_words<Word, std::uint16_t>(stream, first + begin, n, out + begin, part);
        else if (stream.random_bits <= 32 || sizeof(Word) == 4)
            draw_words<Word, std::uint32_t>(stream, first + begin, n, out + begin, part);
        else if constexpr (sizeof(Word) == 8)
            draw_words<Word, std::uint64_t>(stream, first + begin, n, out + begin, part);
    }
    stratify(stream, first, count, out);
}

// Slots of 16 random bits are words, so complete blocks are written directly to `out`.
template <>
void random_words(const RandomStream& stream, std::uint64_t first, std::size_t count,
                  std::uint16_t* out, const float* numbers) {
    if (drawn_over_zero(stream, first, count, out, numbers)) return;
    const auto part = [&](std::size_t begin, std::size_t n) {
        if (n > 0)
            draw_words<std::uint16_t, std::uint16_t>(stream, first + begin, n, out + begin,
                                                     nullptr);
    };
    constexpr std::size_t in_block = Slots<std::uint16_t>::in_block;
    const std::size_t head = std::min<std::size_t>(count, (in_block - first % in_block) % in_block),
                      whole = (count - head) / in_block;
    part(0, head);
    philox_words(stream, (first + head) / in_block, whole, out + head,
                 read_next(numbers == nullptr ? nullptr : numbers + head, in_block));
    if (stream.random_bits < 16)
        simd::run<WordsOfSlots<std::uint16_t, std::uint16_t>>(out + head, whole * in_block,
                                                              stream.random_bits, out + head);
    part(head + whole * in_block, count - head - whole * in_block);
    stratify(stream, first, count, out);
}
template void random_words(const RandomStream&, std::uint64_t, std::size_t, std::uint32_t*,
                           const float*);
template void random_words(const RandomStream&, std::uint64_t, std::size_t, std::uint64_t*,
                           const float*);
template void random_words(const RandomStream&, std::uint64_t, std::size_t, double*, const float*);

}  // namespace apscope::detail
