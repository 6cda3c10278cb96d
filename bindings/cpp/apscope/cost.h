// Modelled time of collective operations.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "export.h"

namespace apscope {

/// @addtogroup cost Modelled time
/// @{

/// Links between the workers, and memory.
struct Network {
    double latency = 5e-6;    ///< seconds per message between nodes
    double bandwidth = 10e9;  ///< bytes per second of one network interface between nodes
    /// Seconds per message and bytes per second inside a node; by default those between nodes.
    std::optional<double> intra_latency = {}, intra_bandwidth = {};
    double pass_cost = 1e-12;  ///< seconds per byte of one local pass over memory
    /// The number of nodes, which divides the number of workers; consecutive workers share a node.
    /// None: every worker is a node.
    std::optional<int> nodes = {};
    /// Network interfaces per node, each of `bandwidth`, shared by the node's workers; at most one
    /// per worker, which is the default.
    std::optional<int> interfaces = {};
};

/// A network of links of known hardware: nvlink4, infiniband_ndr, pcie5_x16, ethernet_100 or
/// ethernet_25. docs/nodes.md has their latencies and bandwidths. Python has the same function,
/// `apscope.cost.Network.of`.
///
/// @param inside   The link inside a node.
/// @param between  The link between nodes; Ethernet has one interface per node, all others have one
///                 per worker.
/// @param nodes    The number of nodes.
/// @throws std::invalid_argument  An unknown link.
[[nodiscard]] APSCOPE_API Network network_of(std::string_view inside, std::string_view between,
                                             std::optional<int> nodes = {});

/// The work of one worker in a collective operation.
struct CollectiveCost {
    double messages = 0, bytes = 0;  ///< messages and bytes sent between nodes, one after another
    double intra_messages = 0, intra_bytes = 0;  ///< messages and bytes sent inside a node
    double added = 0, decoded = 0;  ///< bytes that the worker adds up, and bytes that it decodes
    double busiest = 0;             ///< bytes that the busiest worker sends between nodes
    double node_bytes = 0;          ///< bytes that the busiest node sends to the others
    int workers_of_node = 1;        ///< workers per node if they are placed on nodes, otherwise 1
    /// Bytes between nodes and bytes inside a node, for each of the stages that follow each other.
    /// In a stage both kinds of links work at once, and the slower kind determines the time.
    std::vector<std::pair<double, double>> stages = {};
};

/// The cost of one collective operation, by the formulas of docs/definitions.md, section 12; equal
/// to that of `apscope.cost.collective` in Python.
///
/// @param name     ring, tree, halving, pat, double_tree, all_gather, shards, hierarchical,
///                 hierarchical_shards or streams.
/// @param sent     The bytes of one worker's message.
/// @param workers  At least one.
/// @param group    Workers in a group; for hierarchies only. By default all workers of a node;
///                 without nodes, one.
/// @param partial  Bytes of a sent partial sum; by default `sent`.
/// @param result   Bytes of the result; by default `sent`.
/// @param nodes    The number of nodes; `bytes` and `busiest` are then a worker's share of the
///                 bytes that its node sends. None: every worker is a node, or in a hierarchy every
///                 group.
/// @throws std::invalid_argument  An unknown name; no worker; a number of nodes that does not
///                                divide the workers; a hierarchy whose groups are not the nodes.
[[nodiscard]] APSCOPE_API CollectiveCost collective(std::string_view name, double sent, int workers,
                                                    std::optional<int> group = {},
                                                    std::optional<double> partial = {},
                                                    std::optional<double> result = {},
                                                    std::optional<int> nodes = {});

/// The modelled seconds: latencies and transfers, and the passes of the additions, but not encoding
/// and decoding. The placement on nodes is that of `cost`; `network.nodes` is not used.
[[nodiscard]] APSCOPE_API double seconds(const CollectiveCost& cost, const Network& network = {});

/// @}

}  // namespace apscope
