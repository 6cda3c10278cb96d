// What a scheme takes of memory and time, found by running it: its rows of four tensors of a fixed
// content are made, and what was allocated for them and how long that took says what larger ones
// take. Nothing else knows it.
#pragma once

#include <cstddef>
#include <span>

#include "analysis/replay/resolved_schemes.h"
#include "emulation/allreduce/topology.h"

namespace apscope::detail {

// Bytes of n elements of each of W workers: linear in both.
struct Bytes {
    double constant = 0.0, an_element = 0.0, a_worker = 0.0, a_value = 0.0;

    std::size_t of(std::size_t elements, int workers) const;
};

struct SchemeCost {
    Bytes most;  // at once on a tensor at a step, what the scheme remembers included, but not the
                 // tables that it names itself
    Bytes state;  // what it remembers of the tensor
    double seconds_a_value = 0.0;  // on one thread of this machine
};

// draws: K of the replay. largest: elements of the largest tensor that is asked about. A scheme
// with parts of a caller's own is not run: it counts as one that copies its rows a few times.
SchemeCost cost_of(const ResolvedScheme& scheme, std::span<const Topology> topologies, bool reduces,
                   int draws, std::size_t largest);

}  // namespace apscope::detail
