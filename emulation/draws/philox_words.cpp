#include "emulation/draws/philox_words.h"

#include <algorithm>
#include <cstring>

#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

#if defined(__x86_64__)
using TwoLanes = std::uint64_t __attribute__((vector_size(16)));
using FourLanes = std::uint64_t __attribute__((vector_size(32)));
using EightLanes = std::uint64_t __attribute__((vector_size(64)));

// Computes one Philox block per 64-bit lane. A word of a counter is the low half of a lane; the
// high half is arbitrary, because the next multiplication ignores it.
template <class Vector>
struct PhiloxLanes {
    static constexpr std::size_t lanes = sizeof(Vector) / 8;
    static constexpr std::uint64_t factor0 = 0xD2511F53, factor1 = 0xCD9E8D57;

    // The constants of all blocks of a stream whose indices have the same high half.
    struct Constants {
        std::uint32_t key[10][2];
        // The terms that the first two rounds add (by XOR) to their products.
        Vector first1, second0, second2, second3;
    };
    struct Counter {
        Vector word[4];
    };

    static APSCOPE_INLINE void fill(Vector& all, std::uint64_t value) {
        for (std::size_t i = 0; i < lanes; ++i) all[i] = value;
    }

    // Multiplies the lanes' low halves by a number of 32 bits, in one instruction. For the product
    // of two vectors of 64-bit lanes, g++ 12 emits three multiplications, even if the high halves
    // are known to be zeros.
    static APSCOPE_INLINE void multiply(Vector& product, const Vector& word, std::uint64_t factor) {
        Vector factors;
        fill(factors, factor);
#if defined(__clang__)
        product = (word & 0xFFFFFFFF) * factors;
#else
        if constexpr (lanes == 2) {
            product = word;
            asm("pmuludq %1, %0" : "+x"(product) : "x"(factors));
        } else {
            asm("vpmuludq %2, %1, %0" : "=v"(product) : "v"(word), "v"(factors));
        }
#endif
    }

    static APSCOPE_INLINE void make_constants(const RandomStream& stream, std::uint64_t first,
                                              Constants& c) {
        PhiloxKey key = stream.key;
        for (auto& round : c.key) {
            round[0] = key.low, round[1] = key.high;
            key = {key.low + 0x9E3779B9u, key.high + 0xBB67AE85u};
        }
        // A round multiplies words 0 and 2. Word 2 is the same for all blocks in round 1, and word
        // 0 in round 2.
        const std::uint64_t product1 = factor1 * stream.worker;
        const std::uint32_t word0 = static_cast<std::uint32_t>(product1 >> 32) ^
                                    static_cast<std::uint32_t>(first >> 32) ^ stream.key.low;
        const std::uint64_t product0 = factor0 * word0;
        fill(c.first1, stream.stage_and_hop ^ c.key[0][1]);
        fill(c.second0, product1 ^ c.key[1][0]);
        fill(c.second2, (product0 >> 32) ^ c.key[1][1]);
        fill(c.second3, product0);
    }

    static APSCOPE_INLINE void two_rounds(const Constants& c, const Vector& block,
                                          Counter& counter) {
        Vector product0, product1;
        multiply(product0, block, factor0);
        multiply(product1, (product0 >> 32) ^ c.first1, factor1);
        counter.word[0] = (product1 >> 32) ^ c.second0;
        counter.word[1] = product1;
        counter.word[2] = product0 ^ c.second2;
        counter.word[3] = c.second3;
    }

    static APSCOPE_INLINE void round(Counter& counter, const std::uint32_t (&key)[2]) {
        Vector product0, product1;
        multiply(product0, counter.word[0], factor0);
        multiply(product1, counter.word[2], factor1);
        counter.word[0] = (product1 >> 32) ^ counter.word[1] ^ key[0];
        counter.word[1] = product1;
        counter.word[2] = (product0 >> 32) ^ counter.word[3] ^ key[1];
        counter.word[3] = product0;
    }

    // Even lanes have the first half of the blocks, odd lanes the second half. The words of the
    // even lanes are written first, then the words of the odd lanes, so the blocks are in order.
    static APSCOPE_INLINE void store(const Counter& counter, unsigned char* words) {
        const Vector low = (counter.word[0] & 0xFFFFFFFF) | counter.word[1] << 32,
                     high = (counter.word[2] & 0xFFFFFFFF) | counter.word[3] << 32;
        Vector even, odd;
        if constexpr (lanes == 2) {
            even = __builtin_shufflevector(low, high, 0, 2);
            odd = __builtin_shufflevector(low, high, 1, 3);
        } else if constexpr (lanes == 4) {
            even = __builtin_shufflevector(low, high, 0, 4, 2, 6);
            odd = __builtin_shufflevector(low, high, 1, 5, 3, 7);
        } else {
            even = __builtin_shufflevector(low, high, 0, 8, 2, 10, 4, 12, 6, 14);
            odd = __builtin_shufflevector(low, high, 1, 9, 3, 11, 5, 13, 7, 15);
        }
        std::memcpy(words, &even, sizeof even);
        std::memcpy(words + sizeof even, &odd, sizeof odd);
    }

    // Computes the blocks of several counters at a time, because with one counter the processor
    // would wait for each product. Advances `block` past the computed blocks.
    template <std::size_t Counters>
    static APSCOPE_INLINE void draw(const Constants& c, Vector& block, unsigned char* words) {
        Counter counter[Counters];
        for (std::size_t i = 0; i < Counters; ++i, block += lanes) two_rounds(c, block, counter[i]);
#pragma GCC unroll 8
        for (std::size_t r = 2; r < 10; ++r) {
            for (std::size_t i = 0; i < Counters; ++i) round(counter[i], c.key[r]);
        }
        for (std::size_t i = 0; i < Counters; ++i) store(counter[i], words + 16 * i * lanes);
    }

    static APSCOPE_INLINE void run(const RandomStream* stream, std::uint64_t first,
                                   std::size_t blocks, unsigned char* words, ReadNext next) {
        constexpr std::size_t counters = 4, cache_line = 64;
        Constants c;
        make_constants(*stream, first, c);
        Vector block;  // the block index of each lane, in an order that store() undoes
        for (std::size_t i = 0; i < lanes; ++i) block[i] = first + i / 2 + i % 2 * (lanes / 2);
        std::size_t b = 0;
        for (; b + counters * lanes <= blocks; b += counters * lanes) {
            const auto* bytes =
                static_cast<const unsigned char*>(next.begin) + b * next.bytes_a_block;
            for (std::size_t i = 0; i < counters * lanes * next.bytes_a_block; i += cache_line)
                __builtin_prefetch(bytes + i);
            draw<counters>(c, block, words + 16 * b);
        }
        for (; b < blocks; b += lanes) {
            unsigned char last[16 * lanes];
            const bool fits = b + lanes <= blocks;
            draw<1>(c, block, fits ? words + 16 * b : last);
            if (!fits) std::memcpy(words + 16 * b, last, 16 * (blocks - b));
        }
    }
};
#endif

void one_by_one(const RandomStream& stream, std::uint64_t first, std::size_t blocks,
                unsigned char* words) {
    for (std::size_t b = 0; b < blocks; ++b) {
        const PhiloxBlock block = stream.block(first + b);
        std::memcpy(words + 16 * b, block.word, 16);
    }
}

// Draws blocks whose indices have the same high half. One or two blocks are computed one by one,
// which is faster than computing the constants for vectors.
void draw_blocks(const RandomStream& stream, std::uint64_t first, std::size_t blocks,
                 unsigned char* words, [[maybe_unused]] ReadNext next) {
    switch (blocks > 2 ? simd_level() : SimdLevel::portable) {
#if defined(__x86_64__)
        case SimdLevel::avx512:
            return simd::run_avx512<PhiloxLanes<EightLanes>>(&stream, first, blocks, words, next);
        case SimdLevel::avx2:
            return simd::run_avx2<PhiloxLanes<FourLanes>>(&stream, first, blocks, words, next);
        case SimdLevel::sse4:
            return simd::run_sse4<PhiloxLanes<TwoLanes>>(&stream, first, blocks, words, next);
#endif
        default: return one_by_one(stream, first, blocks, words);
    }
}

}  // namespace

void philox_words(const RandomStream& stream, std::uint64_t first, std::size_t blocks, void* words,
                  ReadNext next) {
    auto* out = static_cast<unsigned char*>(words);
    while (blocks > 0) {
        const std::size_t n =
            std::min<std::uint64_t>(blocks, (std::uint64_t{1} << 32) - (first & 0xFFFFFFFF));
        draw_blocks(stream, first, n, out, next);
        first += n, blocks -= n, out += 16 * n;
        next = {};  // the memory for later blocks is not prefetched
    }
}

}  // namespace apscope::detail
