// A collective on nodes: which of its bytes and messages cross from node to node. Worker w of W is
// on node w / (W / nodes), rounded down, so that neighbours of a ring share a node. A node's
// traffic leaves through all its network interfaces, equally: a library runs as many rings or
// trees, with a part of the bytes each, as NCCL does. docs/definitions.md, section 12.
#pragma once

#include <optional>
#include <string_view>

#include "analysis/cost/cost_model.h"

namespace apscope::detail {

// The cost with `inter` and `intra` divided so; inter.bytes are a worker's share of what its node
// sends. None for a hierarchy whose groups are not the nodes, unless there is one node. Without
// nodes it is collective_cost's. Throws std::invalid_argument for nodes that do not divide the
// workers, and for more than 2^20 workers on nodes.
std::optional<Cost> cost_on_nodes(CollectiveAlgorithm collective, const MessageBytes& bytes,
                                  int workers, int group, std::optional<int> nodes);

// The same of a way; of a hierarchy of two levels whose groups are the nodes.
std::optional<Cost> cost_on_nodes(const Way& way, int workers, std::optional<int> nodes);

// By name; the group of a hierarchy is by default a node. Throws std::invalid_argument, also where
// the above has none.
Cost checked_cost(std::string_view name, const MessageBytes& bytes, int workers,
                  std::optional<int> group, std::optional<int> nodes);

// Seconds per message, bytes per second.
struct Link {
    double latency = 0.0, bandwidth = 1.0;
};

// Of the links between nodes and inside them. With nodes, the workers of one share `interfaces`
// network interfaces of the bandwidth of `inter`; without, or where a node has fewer workers, each
// worker has its own.
struct Links {
    Link inter, intra;
    double pass_cost = 0.0;  // seconds per byte of one local pass over memory
    std::optional<int> nodes, interfaces;
};

// Seconds of the messages' latencies; of their bytes; of both and the passes of the additions.
double latency_seconds(const Cost& cost, const Links& links);
double transfer_seconds(const Cost& cost, const Links& links);
double seconds_of(const Cost& cost, const Links& links);

}  // namespace apscope::detail
