// Counts comparisons, and stores the first failed one.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "emulation/verify/verify.h"

namespace apscope::detail::oracle {

template <class Real>
using BitsOfReal = std::conditional_t<std::is_same_v<Real, float>, std::uint32_t, std::uint64_t>;
template <class Real>
BitsOfReal<Real> bits_of(Real x) {
    return std::bit_cast<BitsOfReal<Real>>(x);
}

// Every comparison has a fixed number, its place, so that the first mismatch does not depend on the
// number of threads. The order of places is: selected cases, array elements, codes (from
// first_code_place on), all inputs (from first_exhaustive_place on).
inline constexpr std::uint64_t first_code_place = std::uint64_t{1} << 40;
inline constexpr std::uint64_t first_exhaustive_place = std::uint64_t{1} << 41;

// The counts of some of the comparisons; `first` is the mismatch at the lowest place, first_place.
struct Tally {
    std::uint64_t cases = 0, mismatches = 0,
                  first_place = std::numeric_limits<std::uint64_t>::max();
    Mismatch first;

    void compare(std::uint64_t place, const char* what, std::uint64_t input, std::uint64_t expected,
                 std::uint64_t got, std::uint64_t random = 0) {
        ++cases;
        if (expected == got) return;
        ++mismatches;
        if (place >= first_place) return;
        first_place = place;
        first = {};
        first.what = what;
        first.input = input;
        first.expected = expected;
        first.got = got;
        first.random = random;
        first.input_is_code = place >= first_code_place && place < first_exhaustive_place;
    }
    void merge(const Tally& other) {
        cases += other.cases;
        mismatches += other.mismatches;
        if (other.first_place < first_place) {
            first_place = other.first_place;
            first = other.first;
        }
    }
};

}  // namespace apscope::detail::oracle
