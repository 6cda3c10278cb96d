// The fp32 inputs at which a cast to a format can go wrong, made from the format's own fields.
#pragma once

#include <cstdint>
#include <vector>

#include "core/float_format.h"

namespace apscope::oracle {

// Formats up to this many bits are checked at every value and midpoint.
inline constexpr int full_storage_bits = 19;

// Sorted by bit pattern, without repetition, of both signs:
// - up to 19 storage bits: every value, every midpoint of two neighbours (that above the largest
//   included) and the fp32 numbers next to each of those; wider: the same at the significands near
//   the ends and the middle of every binade;
// - the fp32 numbers around the smallest and the largest value, around fp32's own limits, fp32
//   subnormals, both zeros, infinities and NaNs of both signs, quiet and signalling;
// - `random_cases` random bit patterns, the same for the same `seed`.
std::vector<float> cases(const FloatFormat& format, std::size_t random_cases, std::uint64_t seed);

}  // namespace apscope::oracle
