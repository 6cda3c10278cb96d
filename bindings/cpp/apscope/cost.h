// Modelled time of collective operations.
#pragma once

#include <optional>
#include <string_view>

#include "export.h"

namespace apscope {

/// @addtogroup cost Modelled time
/// @{

/// Links between the workers, and memory, in seconds and bytes per second.
struct Network {
    double latency = 5e-6;     ///< per message between nodes
    double bandwidth = 10e9;   ///< per worker between nodes
    std::optional<double> intra_latency = {}, intra_bandwidth = {};  ///< inside a node; by default
                                                                     ///< as between nodes
    double pass_cost = 1e-12;  ///< per byte of one local pass over memory
};

/// The work of one worker in a collective operation.
struct CollectiveCost {
    double messages = 0, bytes = 0;  ///< sent between nodes, one after another
    double intra_messages = 0, intra_bytes = 0;  ///< sent inside a node
    double added = 0, decoded = 0;  ///< bytes that it adds up, that it decodes
    double busiest = 0;  ///< bytes that the busiest worker sends between nodes
};

/// The cost of one collective operation, by the formulas of docs/definitions.md, section 12; equal
/// to that of `apscope.cost.collective` in Python.
///
/// @param name     ring, tree, halving, pat, double_tree, all_gather, shards, hierarchical or
///                 hierarchical_shards.
/// @param sent     Bytes of one worker's message.
/// @param workers  At least one.
/// @param group    Workers in a node; hierarchies only.
/// @param partial  Bytes of a sent partial sum; by default `sent`.
/// @param result   Bytes of the result; by default `sent`.
/// @throws std::invalid_argument  An unknown name, no worker.
APSCOPE_API CollectiveCost collective(std::string_view name, double sent, int workers,
                                      int group = 1, std::optional<double> partial = {},
                                      std::optional<double> result = {});

/// Latencies and transfers, and the passes of the additions; none for encoding and decoding.
APSCOPE_API double seconds(const CollectiveCost& cost, const Network& network = {});

/// @}

}  // namespace apscope
