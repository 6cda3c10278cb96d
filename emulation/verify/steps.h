// A deterministic cast of fp32 as the step function that it is, found from the oracles, and the
// array path held against it on all 2^32 inputs.
//
// Rounding never changes the order of numbers. So, apart from zeros, from where flushing begins,
// and from infinities and NaNs, a cast is constant between two inputs of one sign that it sends to
// the same result: bisection of the bit patterns finds every input at which the result changes,
// with some 15 questions a step. The array path is then compared with the oracle everywhere, not
// only at chosen places, at the array path's own speed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/oracle/rational_oracle.h"
#include "emulation/verify/tally.h"
#include "emulation/verify/verify.h"

namespace apscope::detail::oracle {

// From the input bits `first` on, up to the next step's, every result has the bits `result`.
struct Step {
    std::uint32_t first;
    std::uint32_t result;
};

// What all 2^32 inputs become. The exact rationals find the steps, and MPFR confirms both ends of
// each: std::logic_error where the two differ or where results are not in the order of their
// inputs.
struct Staircase {
    // `projection` must be deterministic, and fp32 must hold the format's values.
    Staircase(const FloatFormat& format, const Projection& projection, int threads);

    // results[i] = what the input bits first + i become.
    void fill(std::uint32_t first, std::span<std::uint32_t> results) const;

    RationalOracle oracle;                 // asked at every NaN
    std::vector<Step> positive, negative;  // each sign's, from its zero to its infinity
};

// quantize() against the staircase of its `format` and `projection`. `stopped` becomes true when
// progress says so. The rule itself is compared where it may change, at the cases of
// core/oracle/cases.h: between two of them it has but one result to give.
Tally arrays_against_steps(const FloatFormat& format, const Projection& projection,
                           const Staircase& expected, int threads, const Progress& progress,
                           bool& stopped);

}  // namespace apscope::detail::oracle
