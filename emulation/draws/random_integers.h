// Random words of consecutive elements as whole numbers in fp64, for loops that compare them with counts of words.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/philox.h"

namespace apscope::detail {

inline constexpr std::size_t random_group = 256;  // numbers at a time, at most

// out[i] = the word of element first + i of a stream of at most 53 random bits N, an integer from 0 to 2^N - 1.
void random_integers(const RandomStream& stream, std::uint64_t first, std::size_t count, double* out);

}  // namespace apscope::detail
