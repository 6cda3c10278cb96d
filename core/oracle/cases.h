// The inputs at which a cast to a format can go wrong, derived from the fields of the format.
#pragma once

#include <cstdint>
#include <vector>

#include "core/float_format.h"

namespace apscope::detail::oracle {

// Formats of at most this many storage bits are checked at every value and every midpoint.
inline constexpr int full_storage_bits = 19;

// Numbers of Real (fp32 or fp64) of both signs, sorted by bit pattern, without repetition:
// - In formats of up to 19 storage bits, every value, every midpoint of two neighbours (also the
// midpoint above the largest value) and the numbers next to each of these. In wider formats, the
// same for values near the ends, the thirds and the middle of every binade. In fp64, also the
// numbers at a relative distance of 2^-40 from each of these.
// - The numbers around the smallest and the largest value and around Real's own limits, subnormal
// numbers of Real, both zeros, infinities, and NaNs of both signs, quiet and signalling, with every
// single payload bit, with all payload bits but one, and with mixed payload bits.
// - `random_cases` random bit patterns, which depend on `seed` alone. In fp64, every second pattern
// has its exponent near the format's range, because few random patterns of 64 bits fall there.
template <class Real>
std::vector<Real> cases(const FloatFormat& format, std::size_t random_cases, std::uint64_t seed);

}  // namespace apscope::detail::oracle
