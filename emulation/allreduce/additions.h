// What the additions of a topology round to, given the accumulator that the scheme names. Most
// topologies round every sum to it; others add in a wider format and round what is sent, or what
// the workers get. NCCL's additions are those of its kernels: to nearest even, saturating in
// formats of at most 8 bits, whatever the scheme's projection says.
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
    SumRounding narrow;               // of hops, and of rows rounded by themselves
    std::optional<SumRounding> wide;  // of hops that are `wide`
    bool ends_wide = false;           // the last sum is
    bool exact = false;  // instead of all that: the exact sum, rounded once to `narrow`

    // Of the rounding that happens last.
    const SumRounding& last() const { return ends_wide ? *wide : narrow; }
    // No sum is larger without an overflow on the way.
    double largest() const;
    // Whether finite numbers have finite sums. An infinity on the way meets finite numbers alone.
    bool clamps() const { return apscope::clamps(last().projection.overflow); }
    bool draws() const { return is_stochastic(narrow.projection.rounding); }
};

// The rows' rules, of the accumulator `narrow`.
namespace adding {
Additions in_fp32(const SumRounding& narrow);  // rounded at the end
Additions at_the_end_in_fp32(
    const SumRounding& narrow);                   // partial sums are rounded, the sum is not
Additions to_nearest(const SumRounding& narrow);  // with infinities, whatever the projection
Additions as_nccl(const SumRounding& narrow);
Additions as_nccl_symmetric(const SumRounding& narrow);
Additions as_nvls(const SumRounding& narrow);
}  // namespace adding

Additions additions_of(const Topology& topology, const FloatFormat& accumulate,
                       const Projection& projection);

}  // namespace apscope::detail
