// The time of an all-reduce by the alpha-beta-gamma model: every message takes a latency and its
// bytes divided by the bandwidth of the link, every pass over memory its bytes times a cost. The
// formulas are the usual ones of collective algorithms (docs/definitions.md, section 12), without
// congestion or overlap with computation.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "emulation/schemes/transport.h"

namespace apscope::detail {

// The messages of one worker over one level of links, one after another.
struct Traffic {
    double messages = 0.0, bytes = 0.0;
};

// Bytes sent over both levels of links at the same time; the slower level determines the time.
struct CostStage {
    double inter = 0.0, intra = 0.0;
};

// The cost of one collective operation. Bytes and messages are those of one worker, unless a
// comment names others.
struct Cost {
    // The traffic between nodes and, for hierarchies and for collectives placed on nodes (nodes.h),
    // inside a node. Otherwise every worker counts as a node.
    Traffic inter, intra;
    std::array<CostStage, 2> stages;  // bytes of inter and intra, in stages one after another
    double added = 0.0;               // bytes that one worker adds up, or counts in a vote
    double decoded = 0.0;  // bytes that one worker decodes: the result, or the others' messages
    // Bytes that the busiest worker sends between the nodes. `inter` counts messages that must be
    // sent one after another, in a tree by several workers.
    double busiest = 0.0;
    // Bytes that the busiest worker of a hierarchy sends inside a node.
    double busiest_inside = 0.0;
    double node = 0.0;        // bytes that the busiest node sends to the others
    int workers_of_node = 1;  // workers per node if they are placed on nodes, otherwise 1
};

// The bytes of one worker's message, of a partial sum and of the result. The side information has
// `side` bytes and is sent completely with every message, however few values the message has; only
// if side_in_parts is true, `shards` sends with each part the side information of that part. With
// the results, `shards` sends `result_side`, and all other algorithms send `side`.
struct MessageBytes {
    double sent = 0.0, partial = 0.0, result = 0.0, side = 0.0;
    bool side_in_parts = false;
    double result_side = 0.0;

    MessageBytes without_side() const { return {sent, partial, result, 0.0, side_in_parts, 0.0}; }
};

enum class CollectiveAlgorithm {
    ring,     // reduce-scatter and all-gather around a ring
    tree,     // complete messages go up a binary tree, and the result goes down
    halving,  // recursive halving, then doubling, among a power of two of workers; each other
              // worker sends its messages to one of them before, and gets the result from it after
    pat,      // NCCL's reduce-scatter and all-gather in logarithmic steps, any number of workers
    double_tree,  // NCCL's: each of two binary trees works like `tree`, on half of the values
    all_gather,   // every worker gets all messages, and adds them itself
    shards,  // an all-to-all: worker k gets the k-th part of all messages and reduces it; then an
             // all-gather of the results, if there are any (two-phase, votes, integer sums)
    hierarchical,         // reduce-scatter inside a node, ring between nodes, all-gather inside
    hierarchical_shards,  // like hierarchical, but `shards`, with encoded sums, between nodes
    streams,              // the bytes of a message are all that a worker sends, in any number of
                          // messages; no nodes
};

// An algorithm's name is that of its enumerator. parse_collective() throws std::invalid_argument
// for any other name.
std::string_view name_of(CollectiveAlgorithm collective);
CollectiveAlgorithm parse_collective(std::string_view name);

// The cost for one tensor. `group`: the number of workers in a node, for hierarchies only. A single
// worker sends nothing. Throws std::invalid_argument if `workers` or `group` is less than 1.
Cost collective_cost(CollectiveAlgorithm collective, const MessageBytes& bytes, int workers,
                     int group = 1);

// The algorithm of a row's topology, and the size of its groups. None for `exact`, which is not an
// algorithm, and for a hierarchy of two levels, which has two algorithms.
std::optional<std::pair<CollectiveAlgorithm, int>> collective_of(std::string_view topology);

// How a scheme's messages are sent: by which algorithm, and how many bytes.
struct Way {
    CollectiveAlgorithm collective = CollectiveAlgorithm::ring;
    int group = 1, rounds = 1;  // workers in a group; messages in sequence, as in Transport
    MessageBytes bytes;
    // For a hierarchy of two levels: how the groups' complete sums are sent, while the other fields
    // describe the exchange inside `group` workers. With one group, `inside` is true and there is
    // no `over`.
    std::shared_ptr<const Way> over = nullptr;
    bool inside = false;

    Way without_side() const;
};
// The way of the messages of a row with this many values, and bytes of payload, side information
// and statistics on which the workers agree beforehand. None if no algorithm computes the sum.
std::optional<Way> way_of(const Transport& transport, std::string_view topology, double values,
                          double payload, double side, double agreed, int workers);
// The cost of a way, by collective_cost().
Cost cost_of(const Way& way, int workers);

// The columns `volume` and `intra_volume`: bytes that the busiest worker sends of one tensor,
// divided by those that it sends in an fp32 ring. `inter` includes the values that the workers
// agree on beforehand, in a ring. Both are NaN at the wire, for `exact`, `sequential` and sums
// without a width, for one worker, and for a tensor without elements; `intra` is also NaN without
// nodes. With a single node `inter` is the traffic inside it.
struct Volume {
    double inter, intra;
};
Volume volume_of(const Transport& transport, std::string_view topology, double values,
                 double payload_bits, double side_bits, int workers);

}  // namespace apscope::detail
