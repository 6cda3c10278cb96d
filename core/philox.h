// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw (SC 2011), and the
// streams drawn from it. A random word depends only on its key and its index, so any slice of a
// tensor, any thread count, any shard and any device draws the same bits.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/host_device.h"

namespace apscope::detail {

struct PhiloxBlock {
    std::uint32_t word[4];
};
struct PhiloxKey {
    std::uint32_t low, high;
};

// Applies the ten rounds of Philox4x32 to a counter.
APSCOPE_HD PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter.word[0];
        const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter.word[2];
        counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key.low,
                    static_cast<std::uint32_t>(product1),
                    static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key.high,
                    static_cast<std::uint32_t>(product0)}};
        key = {key.low + 0x9E3779B9u, key.high + 0xBB67AE85u};
    }
    return counter;
}

// One stream of random words, indexed by element.
//
//      counter word   3              2        1                0
//                     stage | hop    worker   element block (64 bits)
// A block has 128 random bits: for 8 elements if an element needs at most 16 bits, for 4 if it
// needs at most 32, else for 2. Slot j of a block is its j-th run of 16, 32 or 64 bits, least
// significant word first.
inline constexpr std::uint32_t place_stage = 5u << 28;  // Stage::place
struct RandomStream {
    PhiloxKey key;
    std::uint32_t worker;
    std::uint32_t stage_and_hop;  // see stage_and_hop() below
    int random_bits;              // bits per random word, 1 to 64
    std::uint32_t strata = 1;     // above 1: the number of workers with correlated words

    // The number of slots of a block.
    APSCOPE_HD static int slots(int random_bits) {
        return random_bits <= 16 ? 8 : random_bits <= 32 ? 4 : 2;
    }

    APSCOPE_HD PhiloxBlock block(std::uint64_t index) const {
        return philox({{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                        worker, stage_and_hop}},
                      key);
    }

    // The random_bits highest bits of slot `slot`, left-aligned in 64 bits; a block has Slots
    // slots.
    template <int Slots>
    APSCOPE_HD std::uint64_t slot_of(const PhiloxBlock& b, int slot) const {
        // An index that a compiler does not know would put the block into a GPU's local memory.
        const auto word = [&](int index) {
            return std::uint64_t{(index & 2) != 0   ? (index & 1) != 0 ? b.word[3] : b.word[2]
                                 : (index & 1) != 0 ? b.word[1]
                                                    : b.word[0]};
        };
        std::uint64_t value;
        if constexpr (Slots == 8) value = (word(slot >> 1) >> (16 * (slot & 1)) & 0xFFFF) << 48;
        else if constexpr (Slots == 4) value = word(slot) << 32;
        else value = word(2 * slot + 1) << 32 | word(2 * slot);
        return value & ~std::uint64_t{0} << (64 - random_bits);
    }
    APSCOPE_HD std::uint64_t slot(const PhiloxBlock& b, int slot) const {
        if (random_bits <= 16) return slot_of<8>(b, slot);
        return random_bits <= 32 ? slot_of<4>(b, slot) : slot_of<2>(b, slot);
    }

    // The random word of an element, left-aligned in 64 bits.
    APSCOPE_HD std::uint64_t at(std::uint64_t element) const {
        const int n = slots(random_bits);
        const std::uint64_t word = slot(block(element / n), static_cast<int>(element % n));
        return strata > 1 ? stratified(word, place(element)) : word;
    }

    // The words by which the workers' places are drawn, alike for all workers: strata - 1 for each
    // element, one after the other.
    APSCOPE_HD RandomStream shared_words() const {
        return {key, 0, place_stage | (stage_and_hop & 0x0FFFFFFF), 32};
    }
    // The place of `worker` in a random permutation of the workers: k = strata - 1, ..., 1 changes
    // places with a random j <= k (Fisher and Yates), by word draw(k - 1), and only the place of
    // `worker` is followed.
    template <class Draw>
    APSCOPE_HD std::uint32_t place_by(const Draw& draw) const {
        std::uint32_t at_place = worker;
        for (std::uint32_t k = strata - 1; k > 0; --k) {
            const auto j = static_cast<std::uint32_t>(std::uint64_t{draw(k - 1)} * (k + 1) >> 32);
            if (at_place == k) at_place = j;
            else if (at_place == j) at_place = k;
        }
        return at_place;
    }
    APSCOPE_HD std::uint32_t place(std::uint64_t element) const {
        const RandomStream shared = shared_words();
        return place_by([&](std::uint32_t draw) {
            const std::uint64_t index = element * (strata - 1) + draw;
            return shared.block(index / 4).word[index % 4];
        });
    }

    // The correlated word (place + U) / strata, left-aligned in 64 bits; U in [0, 1) is the
    // element's word. Rounded down to random_bits it has the distribution of U, exactly, and the
    // words of the workers lie in different strata [p, p + 1) / strata.
    APSCOPE_HD std::uint64_t stratified(std::uint64_t word, std::uint32_t at_place) const {
        const std::uint64_t high = std::uint64_t{at_place} << 32 | word >> 32,
                            low = high % strata << 32 | (word & 0xFFFFFFFF);
        return (high / strata << 32 | low / strata) & ~std::uint64_t{0} << (64 - random_bits);
    }
};

// The random words of one element. Word 0 comes from `stream`, and word k > 0 from the same stream
// with stage `deeper` and hop k; a rounding needs word k with probability 2^(-64 k).
inline constexpr std::uint32_t deeper_stage = 3u << 28;  // Stage::deeper
struct StreamWord {
    const RandomStream* stream;  // a stream of 64 random bits, not of correlated words
    std::uint64_t element;
};
APSCOPE_HD std::uint64_t random_digits(const StreamWord& word, int index) {
    RandomStream stream = *word.stream;
    if (index > 0) stream.stage_and_hop = deeper_stage | static_cast<std::uint32_t>(index);
    return stream.at(word.element);
}

// The stage of a computation at which a random word is drawn.
enum class Stage : std::uint32_t {
    quantize = 0,  // apscope.quantize on an array
    wire = 1,      // a worker rounds its message
    reduce = 2,    // a hop rounds a partial sum; hops are counted from 0
    deeper = 3,    // further digits, if 64 bits do not decide a rounding
    level = 4,     // the key for the random words of a part of a hierarchy
    place = 5,     // a permutation of the workers: RandomStream::place()
};
APSCOPE_HD std::uint32_t stage_and_hop(Stage stage, std::uint32_t hop) {
    return static_cast<std::uint32_t>(stage) << 28 | hop;
}

// The key of part `number` of a hierarchy: the first two words of a block with stage `level`.
APSCOPE_HD PhiloxKey level_key(PhiloxKey key, std::uint32_t number) {
    const PhiloxBlock b = philox({{number, 0, 0, stage_and_hop(Stage::level, 0)}}, key);
    return {b.word[0], b.word[1]};
}

// apscope.quantize uses the seed as its key. A replay computes the block philox(counter = (FNV-1a
// 64 of the tensor's name, step), key = seed). Words 0 and 1 of the block are the key of draw 0;
// word 2 plus d, and word 3, are the key of draw d > 0.
APSCOPE_HD PhiloxKey seed_key(std::uint64_t seed) {
    return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
}
// The stream of apscope.quantize, on the host and on a GPU.
inline RandomStream array_stream(std::uint64_t seed, int random_bits) {
    return {seed_key(seed), 0, stage_and_hop(Stage::quantize, 0), random_bits};
}
inline std::uint64_t fnv1a(std::string_view text) {
    std::uint64_t hash = 0xCBF29CE484222325;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    return hash;
}
inline PhiloxKey replay_key(std::uint64_t seed, std::string_view tensor, std::int64_t step,
                            std::uint32_t draw = 0) {
    const std::uint64_t name = fnv1a(tensor);
    const std::uint64_t number = static_cast<std::uint64_t>(step);
    const PhiloxBlock b =
        philox({{static_cast<std::uint32_t>(name), static_cast<std::uint32_t>(name >> 32),
                 static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)}},
               seed_key(seed));
    if (draw == 0) return {b.word[0], b.word[1]};
    return {b.word[2] + draw, b.word[3]};
}

}  // namespace apscope::detail
