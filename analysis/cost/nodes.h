// A collective on nodes: which of its bytes and messages cross from node to node. Worker w of W is
// on node w / (W / nodes), rounded down, so that neighbours of a ring share a node. A node's
// traffic is divided equally among its network interfaces, because libraries such as NCCL run one
// ring or tree per interface, each with a part of the bytes. docs/definitions.md, section 12.
#pragma once

#include <optional>
#include <string_view>

#include "analysis/cost/cost_model.h"

namespace apscope::detail {

// The cost with its traffic divided into `inter` and `intra`; inter.bytes is a worker's share of
// the bytes that its node sends. None for a hierarchy whose groups are not the nodes, unless there
// is one node. Without nodes the cost is that of collective_cost(). Throws std::invalid_argument
// for nodes that do not divide the workers, and for more than 2^20 workers on nodes.
std::optional<Cost> cost_on_nodes(CollectiveAlgorithm collective, const MessageBytes& bytes,
                                  int workers, int group, std::optional<int> nodes);

// The cost of a way. None for a hierarchy, also of two levels, whose groups are not the nodes,
// unless there is one node.
std::optional<Cost> cost_on_nodes(const Way& way, int workers, std::optional<int> nodes);

// The cost of a collective by name; without `group`, the group of a hierarchy is a node. Throws
// std::invalid_argument if an argument is invalid or cost_on_nodes() returns none.
Cost checked_cost(std::string_view name, const MessageBytes& bytes, int workers,
                  std::optional<int> group, std::optional<int> nodes);

// A link: seconds per message, bytes per second.
struct Link {
    double latency = 0.0, bandwidth = 1.0;
};

// The links between nodes and inside them. With nodes, the workers of a node share `interfaces`
// network interfaces with the bandwidth of `inter`; without nodes, or if a node has fewer workers
// than interfaces, each worker has its own interface.
struct Links {
    Link inter, intra;
    double pass_cost = 0.0;  // seconds per byte of one local pass over memory
    std::optional<int> nodes, interfaces;
};

// The seconds of all latencies of messages.
double latency_seconds(const Cost& cost, const Links& links);
// The seconds of the transfer of all bytes.
double transfer_seconds(const Cost& cost, const Links& links);
// The sum of both, plus the additions' passes over memory.
double seconds_of(const Cost& cost, const Links& links);

}  // namespace apscope::detail
