// Computes many blocks of a random stream, by the ten rounds of core/philox.h in vector registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/philox.h"

namespace apscope::detail {

// Memory that the caller will read after drawing; philox_words() prefetches it while it computes
// the words.
struct ReadNext {
    const void* begin = nullptr;
    std::size_t bytes_a_block = 0;  // bytes to prefetch per Philox block
};

// Writes the words of blocks first .. first + blocks - 1, 16 bytes each, word 0 first.
void philox_words(const RandomStream& stream, std::uint64_t first, std::size_t blocks, void* words,
                  ReadNext next = {});

}  // namespace apscope::detail
