#include "analysis/cost/cost_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "emulation/allreduce/topology.h"

namespace apscope::detail {

namespace {

// In the order of CollectiveAlgorithm.
constexpr std::array<std::string_view, 10> names{"ring",   "tree",         "halving",
                                                 "pat",    "double_tree",  "all_gather",
                                                 "shards", "hierarchical", "hierarchical_shards",
                                                 "streams"};

double binary_levels(int workers) {  // ceil(log2 W)
    int levels = 0;
    while ((1L << levels) < workers) ++levels;
    return levels;
}

// The share of its message that a worker sends away when the message is scattered over all W
// workers.
double scattered(int workers) { return static_cast<double>(workers - 1) / workers; }

}  // namespace

std::string_view name_of(CollectiveAlgorithm collective) {
    return names[static_cast<std::size_t>(collective)];
}

CollectiveAlgorithm parse_collective(std::string_view name) {
    const auto match = std::find(names.begin(), names.end(), name);
    if (match == names.end()) {
        throw std::invalid_argument(
            "unknown collective '" + std::string(name) +
            "'; use ring, tree, halving, pat, double_tree, all_gather, shards, hierarchical, "
            "hierarchical_shards or streams");
    }
    return static_cast<CollectiveAlgorithm>(match - names.begin());
}

std::optional<std::pair<CollectiveAlgorithm, int>> collective_of(std::string_view topology) {
    using namespace reductions;
    if (topology == linear || topology == ring) return {{CollectiveAlgorithm::ring, 1}};
    if (topology == butterfly) return {{CollectiveAlgorithm::halving, 1}};
    if (topology == vote || topology == code_sum || topology == two_phase)
        return {{CollectiveAlgorithm::shards, 1}};
    if (topology == streams) return {{CollectiveAlgorithm::streams, 1}};
    if (topology == gather) return {{CollectiveAlgorithm::all_gather, 1}};
    const std::string_view name = collective_name(topology);
    if (name.empty()) return std::nullopt;
    const Topology parsed = parse_topology(topology);
    if (parsed.kind == Topology::Kind::levels) return std::nullopt;  // two algorithms
    return {{parse_collective(name), std::max(1, parsed.group)}};
}

Cost collective_cost(CollectiveAlgorithm collective, const MessageBytes& b, int workers,
                     int group) {
    if (workers < 1)
        throw std::invalid_argument("workers=" + std::to_string(workers) + " must be at least 1");
    if (group < 1)
        throw std::invalid_argument("group=" + std::to_string(group) + " must be at least 1");
    Cost cost;
    cost.decoded = b.result;
    if (workers == 1) return cost;
    const double others = workers - 1, share = scattered(workers), levels = binary_levels(workers);
    const double partial = b.partial + b.side, result = b.result + b.side;
    switch (collective) {
        case CollectiveAlgorithm::ring:
            cost.inter = {2.0 * others, share * (partial + result)};
            cost.added = share * b.partial;
            break;
        case CollectiveAlgorithm::tree:
            cost.inter = {2.0 * levels, levels * (partial + result)};
            cost.added = levels * b.partial;
            break;
        case CollectiveAlgorithm::halving: {
            const int left = 1 << (static_cast<int>(std::bit_width(unsigned(workers))) - 1);
            const double scattering = scattered(left), sent = left < workers ? 1.0 : 0.0;
            cost.inter = {2.0 * (binary_levels(left) + sent),
                          (scattering + sent) * (partial + result)};
            cost.added = (scattering + sent) * b.partial;
            break;
        }
        case CollectiveAlgorithm::pat:
            cost.inter = {2.0 * levels, share * (partial + result)};
            cost.added = share * b.partial;
            break;
        case CollectiveAlgorithm::double_tree:
            cost.inter = {2.0 * levels, levels * (partial + result) / 2.0};
            cost.added = workers == 2 ? b.partial / 2.0 : b.partial;
            break;
        case CollectiveAlgorithm::all_gather:
            cost.inter = {others, others * (b.sent + b.side)};
            cost.added = others * (b.sent + b.side);
            cost.decoded = workers * (b.sent + b.side);
            break;
        case CollectiveAlgorithm::shards:
            cost.inter = {(b.result + b.result_side > 0.0 ? 2.0 : 1.0) * others,
                          share * (b.sent + b.result) +
                              (b.side_in_parts ? share : others) * (b.side + b.result_side)};
            cost.added = share * b.sent;
            cost.decoded = b.sent + b.result;  // one part of every worker's message, and the result
            break;
        case CollectiveAlgorithm::streams:
            cost.inter = {1.0, b.sent + b.side};
            cost.added = b.sent;
            break;
        case CollectiveAlgorithm::hierarchical:
        case CollectiveAlgorithm::hierarchical_shards: {
            // The workers of a node divide the node's messages; the last node may have the fewest
            // workers.
            const int inside = group < workers ? group : workers,
                      nodes = workers / inside + (workers % inside != 0 ? 1 : 0);
            const int fewest = workers - (nodes - 1) * inside;
            const double between =
                collective == CollectiveAlgorithm::hierarchical ? partial : b.sent + b.side;
            cost.intra = {2.0 * (inside - 1), scattered(inside) * (partial + result)};
            cost.inter = {2.0 * (nodes - 1), scattered(nodes) * (between + result) / fewest};
            cost.added = scattered(inside) * b.partial + scattered(nodes) * between / fewest;
            cost.node = cost.inter.bytes * fewest;
            break;
        }
    }
    cost.busiest = cost.inter.bytes;
    // If W is not a power of two, some workers are paired first. One worker of a pair sends only
    // its message; the other sends all the rest, including the result for the first.
    if (collective == CollectiveAlgorithm::halving && !std::has_single_bit(unsigned(workers)))
        cost.busiest = std::max(partial, cost.busiest - partial);
    if (collective == CollectiveAlgorithm::double_tree) {
        // Every worker is a leaf of one tree and has children in the other, two if there are enough
        // workers.
        cost.busiest = workers == 2 ? (partial + result) / 2.0 : partial + result;
        if (workers == 3) cost.busiest -= std::min(partial, result) / 2.0;
    }
    if (collective == CollectiveAlgorithm::tree) {
        // The root sends the result once per level. Any other worker sends its partial sum once,
        // and the result once per level below it: at most `levels` - 2 times, except for the last
        // worker to send to the root, which has as many levels below it as its subtree.
        const int last = workers - (1 << (static_cast<int>(levels) - 1));
        const double below = std::max(levels - 2.0, binary_levels(last));
        cost.busiest = std::max(levels * result, partial + std::max(below, 0.0) * result);
    }
    if (cost.node == 0.0) cost.node = cost.busiest;
    cost.busiest_inside = cost.intra.bytes;
    cost.stages = {CostStage{0.0, cost.intra.bytes}, CostStage{cost.inter.bytes, 0.0}};
    return cost;
}

namespace {

// The way of a hierarchy of two levels: first inside each group, then among the groups' sums; last,
// all workers get the result.
std::optional<Way> levels_way(const Transport& t, const Topology& topology, double values,
                              double payload, double side, double agreed, int workers) {
    Transport messages = t;
    messages.over.reset();
    std::vector<Topology> levels = topology.levels;
    const bool has_format = !levels[1].format.empty();
    for (Topology& level : levels) level.format.clear();
    const int group = std::min(topology.group, workers), groups = (workers - 1) / group + 1;
    std::optional<Way> way =
        way_of(messages, levels[0].name(), values, payload, side, agreed, group);
    if (!way) return way;
    way->group = group;
    way->inside = groups == 1;
    if (way->inside) return way;
    if (has_format && t.over->code_bits == 0) return std::nullopt;
    const double wide = has_format ? values * t.over->code_bits / 8.0 : payload;
    // If the groups do not agree on scales beforehand, they send the scales with their sums.
    const double sent = t.over->agreed_bits > 0 ? side : side + agreed;
    std::optional<Way> over = way_of(*t.over, levels[1].name(), values, wide, sent, 0.0, groups);
    if (!over) return over;
    way->bytes.result = over->bytes.result;
    way->bytes.result_side = over->bytes.result_side;
    way->over = std::make_shared<const Way>(*std::move(over));
    return way;
}

// The side information of both phases, as MessageBytes has it.
struct ShardSides {
    double messages, results;
};
// Shards of ceil(values / workers) elements; the last ones may have none, and then need no message.
// A scale is in the message of every shard that has one of its elements; in phase 2, units begin
// anew in every shard.
ShardSides shard_sides(const Transport& t, double values, double side, int workers) {
    const double shard = std::ceil(values / workers), shards = std::ceil(values / shard);
    if (workers == 1 || side == 0.0 || values == 0.0) return {side, side};
    if (!t.side_in_parts) {
        // The other shards' messages, on average.
        const double of_each = side * shards / workers;
        return {of_each, of_each};
    }
    const double whole = t.whole_bits, scales = (8 * side - whole) / t.scale_bits;
    if (t.scale_bits == 0 || !(scales > 0.0)) return {side, side};
    const double unit = t.unit != 0 ? static_cast<double>(t.unit) : values / scales;
    double messages = 0.0, results = 0.0;
    for (double first = 0.0; first < values; first += shard) {
        const double end = std::min(first + shard, values);
        messages += std::ceil(end / unit) - std::floor(first / unit);
        results += std::ceil((end - first) / unit);
    }
    const auto bytes = [&](double count) { return (count * t.scale_bits + shards * whole) / 8; };
    return {bytes(messages), bytes(results)};
}

// The bytes of one part if every message is divided into `parts` equal parts.
MessageBytes part_of(MessageBytes b, double parts) {
    const double side = b.side_in_parts ? parts : 1.0;
    return {b.sent / parts, b.partial / parts, b.result / parts,
            b.side / side,  b.side_in_parts,   b.result_side / side};
}

}  // namespace

Way Way::without_side() const {
    Way way = *this;
    way.bytes = bytes.without_side();
    if (over) way.over = std::make_shared<const Way>(over->without_side());
    return way;
}

Cost cost_of(const Way& way, int workers) {
    if (way.inside) {
        Cost cost = collective_cost(way.collective, way.bytes, workers);
        cost.intra = std::exchange(cost.inter, {});
        cost.busiest_inside = std::exchange(cost.busiest, 0.0);
        cost.node = 0.0;
        cost.stages = {CostStage{0.0, cost.intra.bytes}};
        return cost;
    }
    if (!way.over) return collective_cost(way.collective, way.bytes, workers, way.group);
    const int groups = (workers - 1) / way.group + 1,
              // The workers of the last group send the most.
        fewest = workers - (groups - 1) * way.group;
    const Cost below = collective_cost(way.collective, way.bytes, way.group),
               above =
                   collective_cost(way.over->collective, part_of(way.over->bytes, fewest), groups);
    Cost cost;
    cost.intra = below.inter;
    cost.busiest_inside = below.busiest;
    // Each worker gets the other parts of the result from its group.
    if (way.collective == CollectiveAlgorithm::all_gather) {
        const double share = scattered(way.group) * way.over->bytes.result;
        cost.intra.messages += way.group - 1;
        cost.intra.bytes += share;
        cost.busiest_inside += share;
    }
    cost.inter = above.inter;
    cost.busiest = above.busiest;
    cost.added = below.added + above.added;
    cost.decoded = below.decoded + above.decoded;
    cost.node = above.busiest * fewest;
    cost.stages = {CostStage{0.0, cost.intra.bytes}, CostStage{cost.inter.bytes, 0.0}};
    return cost;
}

std::optional<Way> way_of(const Transport& t, std::string_view topology, double values,
                          double payload, double side, double agreed, int workers) {
    if (t.over && !collective_name(topology).empty())
        return levels_way(t, parse_topology(topology), values, payload, side, agreed, workers);
    const auto collective = collective_of(topology);
    if (!collective) return std::nullopt;
    Way way{collective->first, collective->second, t.rounds, {payload, payload, payload, side}};
    if (way.collective == CollectiveAlgorithm::all_gather) return way;
    if (way.collective == CollectiveAlgorithm::streams) {
        if (!t.messages) return std::nullopt;
        way.rounds = t.messages(workers, values);
        way.bytes.result = 4.0 * values;
        return way;
    }
    const bool scatters =
        !collective_name(topology).empty() && !parse_topology(topology).phases.has_phase2;
    if (t.phased) {
        if (!scatters && std::isnan(t.phase2_width)) return std::nullopt;
        const ShardSides sides = shard_sides(t, values, side, workers);
        way.bytes = {payload,        payload,         scatters ? 0.0 : payload * t.phase2_width,
                     sides.messages, t.side_in_parts, scatters ? 0.0 : sides.results};
        return way;
    }
    if (t.exact_sums) return std::nullopt;
    way.bytes.side_in_parts = t.side_in_parts;
    if (t.side_in_parts) way.bytes.result_side = side;
    if (t.node > 1) {  // each worker of a node sends its part of the codes
        const double codes = values * t.code_bits / 8.0;
        way.collective = CollectiveAlgorithm::hierarchical_shards;
        way.group = t.node;
        way.bytes = {codes, values * t.node_bits / 8.0, codes, side};
    } else if (t.sum_bits) {
        way.bytes.partial = way.bytes.result = payload / t.code_bits * t.sum_bits(workers);
    }
    if (scatters) way.bytes.result = 0.0;
    // The result is sent in fp32.
    if (way.collective == CollectiveAlgorithm::pat) way.bytes.result = 4.0 * values;
    return way;
}

Volume volume_of(const Transport& t, std::string_view topology, double values, double payload_bits,
                 double side_bits, int workers) {
    constexpr double missing = std::numeric_limits<double>::quiet_NaN();
    if (workers == 1 || values == 0.0 || topology.find("sequential") != topology.npos)
        return {missing, missing};
    const double agreed = std::min(side_bits, static_cast<double>(t.agreed_bits)) / 8.0;
    const std::optional<Way> way =
        way_of(t, topology, values, payload_bits / 8.0, side_bits / 8.0 - agreed, agreed, workers);
    if (!way) return {missing, missing};
    const Cost cost = cost_of(*way, workers);
    const auto in_ring = [&](double bytes) {
        return collective_cost(CollectiveAlgorithm::ring, {bytes, bytes, bytes}, workers).busiest;
    };
    const double fp32 = in_ring(4.0 * values);
    const bool has_nodes = t.over || way->collective == CollectiveAlgorithm::hierarchical ||
                           way->collective == CollectiveAlgorithm::hierarchical_shards;
    const bool one_node =
        has_nodes &&
        way->group >= workers;  // no messages between nodes: the busiest link is inside
    const double busiest = one_node ? cost.busiest_inside : cost.busiest;
    return {(busiest + in_ring(agreed)) / fp32, has_nodes ? cost.busiest_inside / fp32 : missing};
}

}  // namespace apscope::detail
