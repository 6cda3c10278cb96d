// Converts the public Network to the Links of analysis/cost.
#pragma once

#include "analysis/cost/nodes.h"
#include "bindings/cpp/apscope/cost.h"

namespace apscope {

inline detail::Links links_of(const Network& network) {
    return {{network.latency, network.bandwidth},
            {network.intra_latency.value_or(network.latency),
             network.intra_bandwidth.value_or(network.bandwidth)},
            network.pass_cost,
            network.nodes,
            network.interfaces};
}

}  // namespace apscope
