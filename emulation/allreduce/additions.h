// The roundings of a topology's additions, given the accumulator that the scheme names. Most
// topologies round every sum to the accumulator; others add in a wider format and round the
// messages, or the final sum, to the accumulator. NCCL's topologies add like its kernels, whatever
// the scheme's projection says: ties to even, with saturation in formats of at most 8 bits.
#pragma once

#include <optional>

#include "core/float_format.h"
#include "core/projection.h"
#include "emulation/allreduce/topology.h"

namespace apscope::detail {

struct SumRounding {
    FloatFormat format;
    Projection projection;
};

struct Additions {
    SumRounding narrow;               // for hops, and for rows rounded without an addition
    std::optional<SumRounding> wide;  // for hops with Hop::wide
    bool ends_wide = false;           // the last sum is rounded to `wide`
    bool exact = false;               // no hop rounds: the exact sum is rounded once, to `narrow`

    // The rounding of the last sum.
    const SumRounding& last() const { return ends_wide ? *wide : narrow; }
    // The magnitude that no sum exceeds unless an addition overflows.
    double largest() const;
    // True if sums of finite numbers are finite. (If a partial sum is infinite, later hops add only
    // finite numbers to it.)
    bool clamps() const { return apscope::clamps(last().projection.overflow); }
    bool draws() const { return is_stochastic(narrow.projection.rounding); }
};

// The rules of additions that rows of the table (topology.cpp) name; `narrow` is the accumulator.
namespace adding {
Additions in_fp32(const SumRounding& narrow);  // fp32 sums, rounded at the end
// Rounds every partial sum to `narrow`, but the final sum to fp32.
Additions at_the_end_in_fp32(const SumRounding& narrow);
// Ties to even, with infinities, whatever the projection.
Additions to_nearest(const SumRounding& narrow);
Additions as_nccl(const SumRounding& narrow);
Additions as_nccl_symmetric(const SumRounding& narrow);
Additions as_nvls(const SumRounding& narrow);
}  // namespace adding

Additions additions_of(const Topology& topology, const FloatFormat& accumulate,
                       const Projection& projection);

}  // namespace apscope::detail
