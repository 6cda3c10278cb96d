// The memory and time of a scheme, measured by running it on four tensors of fixed content and
// extrapolated to larger ones. No scheme declares its costs.
#pragma once

#include <cstddef>
#include <span>

#include "emulation/allreduce/topology.h"
#include "emulation/schemes/resolved_schemes.h"

namespace apscope::detail {

// The number of bytes constant + an_element n + a_worker W + a_value n W, for n elements and W
// workers; at least 0.
struct Bytes {
    double constant = 0.0, an_element = 0.0, a_worker = 0.0, a_value = 0.0;

    std::size_t of(std::size_t elements, int workers) const;
};

struct SchemeCost {
    // The peak memory on a tensor at a step, including the scheme's memory, but not the tables
    // whose bytes the scheme itself states.
    Bytes most;
    Bytes state;                   // the scheme's memory of the tensor
    double seconds_a_value = 0.0;  // on one thread of this machine
};

// draws: K of the replay. largest: elements of the largest tensor for which Bytes::of() will be
// called. A scheme whose blocks cross tensors is run on tensors that are complete buckets. A scheme
// with parts that the caller defined is not run; its cost is that of copying its rows a few times.
SchemeCost cost_of(const ResolvedScheme& scheme, std::span<const Topology> topologies, bool reduces,
                   int draws, std::size_t largest);

}  // namespace apscope::detail
