// A deterministic cast of fp32 as a step function, computed by the oracles, and the comparison of
// the array path with it on all 2^32 inputs.
//
// Rounding never changes the order of numbers. So, apart from zeros, from the limit of flushing,
// and from infinities and NaNs, a cast is constant between two inputs of one sign that have the
// same result: a bisection of the bit patterns finds every input at which the result changes, with
// about 15 calls of the oracle per step. The array path is then compared with the oracle
// everywhere, not only at selected inputs, at the speed of the array path.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/oracle/rational_oracle.h"
#include "emulation/verify/tally.h"
#include "emulation/verify/verify.h"

namespace apscope::detail::oracle {

// From the input bits `first` up to those of the next step, every result has the bits `result`.
struct Step {
    std::uint32_t first;
    std::uint32_t result;
};

// The results of all 2^32 inputs. The rational oracle gives the steps, and MPFR confirms both ends
// of each step. Throws std::logic_error if the two oracles differ or if results are not in the
// order of their inputs.
struct Staircase {
    // `projection` must be deterministic, and the format's values must be fp32 numbers.
    Staircase(const FloatFormat& format, const Projection& projection, int threads);

    // Sets results[i] to the result of the input bits first + i.
    void fill(std::uint32_t first, std::span<std::uint32_t> results) const;

    RationalOracle oracle;                 // gives the results of NaNs
    std::vector<Step> positive, negative;  // the steps of each sign, from its zero to its infinity
};

// Compares quantize() with `expected`, the staircase of `format` and `projection`. `stopped`
// becomes true if progress returns false. This function does not compare the rounding rule.
// verify() compares it at the cases of core/oracle/cases.h, between which its result is constant.
Tally arrays_against_steps(const FloatFormat& format, const Projection& projection,
                           const Staircase& expected, int threads, const Progress& progress,
                           bool& stopped);

}  // namespace apscope::detail::oracle
