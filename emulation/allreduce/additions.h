// The roundings of a topology's additions. The scheme names a format, the accumulator. Most
// topologies round every sum to the accumulator; others add in a wider format and round the
// messages, or the final sum, to the accumulator. The topologies of NCCL add like NCCL's kernels
// and ignore the scheme's projection: they round ties to even, with saturation in formats of at
// most 8 bits.
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
    SumRounding narrow;               // the rounding of hops, and of rows without an addition
    std::optional<SumRounding> wide;  // the rounding of hops with Hop::wide
    bool ends_wide = false;           // the last sum is rounded to `wide`
    bool exact = false;               // hops do not round: the exact sum is rounded once, to
                                      // `narrow`

    // The rounding of the last sum.
    const SumRounding& last() const { return ends_wide ? *wide : narrow; }
    // The magnitude that no sum exceeds unless an addition overflows.
    double largest() const;
    // True if sums of finite numbers are finite. (A partial sum may be infinite before the last sum
    // saturates; later hops add only finite numbers to it.)
    bool clamps() const { return apscope::clamps(last().projection.overflow); }
    bool draws() const { return is_stochastic(narrow.projection.rounding); }
};

// The rules of additions in the table of topologies (topology.cpp); `narrow` is the rounding to the
// accumulator.
namespace adding {
Additions in_fp32(const SumRounding& narrow);  // fp32 sums, rounded to `narrow` at the end
// Rounds every partial sum to `narrow`, but the final sum to fp32.
Additions at_the_end_in_fp32(const SumRounding& narrow);
// Rounds to the accumulator's format, ties to even, with infinities, and ignores the projection.
Additions to_nearest(const SumRounding& narrow);
// NCCL's kernels: every sum is rounded to the accumulator, or (symmetric kernels) only the last
// one, with fp32 sums before it.
Additions as_nccl(const SumRounding& narrow);
Additions as_nccl_symmetric(const SumRounding& narrow);
// The NVLink switch: fp32 sums, or fp16 sums of formats of at most 8 bits, rounded at the end. For
// an fp32 accumulator, the exact sum is rounded once.
Additions as_nvls(const SumRounding& narrow);
}  // namespace adding

// The additions of a topology, from the scheme's accumulator and projection.
Additions additions_of(const Topology& topology, const FloatFormat& accumulate,
                       const Projection& projection);

}  // namespace apscope::detail
