#include "emulation/draws/random_integers.h"

#include "emulation/draws/narrow_draws.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

// Blocks that hold random_group elements of any width, wherever the first of them lies in its block.
constexpr std::size_t most_words = 4 * (random_group / 2 + 1);

struct DrawWords {
    static APSCOPE_INLINE void run(const RandomStream* stream, std::uint64_t first, std::uint64_t blocks, std::uint32_t* words) {
        philox_words(*stream, first, blocks, words);
    }
};

// Slot j of a block is its j-th run of 16, 32 or 64 bits, least significant word first (core/philox.h).
struct ReadSlots {
    static APSCOPE_INLINE void run(const std::uint32_t* words, std::size_t skipped, std::size_t count, int random_bits, double* out) {
        if (random_bits <= 16) {
            const int shift = 16 - random_bits;
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t slot = skipped + i;
                out[i] = static_cast<double>(static_cast<std::int32_t>((words[slot >> 1] >> (16 * (slot & 1)) & 0xFFFF) >> shift));
            }
        } else if (random_bits <= 32) {
            const int shift = 32 - random_bits;
            for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<double>(words[skipped + i] >> shift);
        } else {
            const int shift = 64 - random_bits;
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint64_t low = words[2 * (skipped + i)], high = words[2 * (skipped + i) + 1];
                out[i] = static_cast<double>((high << 32 | low) >> shift);
            }
        }
    }
};

}  // namespace

void random_integers(const RandomStream& stream, std::uint64_t first, std::size_t count, double* out) {
    if (count == 0) return;
    const auto slots = static_cast<std::uint64_t>(RandomStream::slots(stream.random_bits));
    std::uint32_t words[most_words];
    const std::uint64_t block = first / slots, blocks = (first + count - 1) / slots - block + 1;
    simd::run<DrawWords>(&stream, block, blocks, static_cast<std::uint32_t*>(words));
    simd::run<ReadSlots>(static_cast<const std::uint32_t*>(words), static_cast<std::size_t>(first % slots), count, stream.random_bits, out);
}

}  // namespace apscope::detail
