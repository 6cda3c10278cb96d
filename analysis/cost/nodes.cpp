#include "analysis/cost/nodes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace apscope::detail {

namespace {

constexpr int most_workers = 1 << 20;  // because messages of trees are counted one by one

struct Nodes {
    int workers, count, each;
    int of(std::int64_t worker) const { return static_cast<int>(worker / each); }
};

// The traffic of a ring over all workers, each of which sends `bytes`. Each node has one link to
// the next node. A message goes around `rounds` times, each time one hop less than the full circle,
// so it omits `rounds` consecutive links. The slowest message omits as few links between nodes as
// possible.
struct Around {
    Traffic inter, intra;
    CostStage stage;
};
Around around(const Nodes& nodes, double bytes, int rounds) {
    const int omitted = std::max(0, rounds + 1 - nodes.each);
    const double all = rounds * (nodes.workers - 1.0), crossing = rounds * nodes.count - omitted;
    Around result;
    result.inter = {crossing, bytes / nodes.each};
    result.intra = {all - crossing, nodes.each > 1 ? bytes : 0.0};
    result.stage = {result.inter.bytes, result.intra.bytes};
    return result;
}

void add(Traffic& to, const Traffic& traffic) {
    to.messages += traffic.messages;
    to.bytes += traffic.bytes;
}

void take(Cost& cost, const Around& ring, std::size_t stage) {
    add(cost.inter, ring.inter);
    add(cost.intra, ring.intra);
    cost.stages[stage] = ring.stage;
}

// Rounds of messages. Each takes as long as its slowest message; the results take the same rounds
// in reverse.
class Rounds {
public:
    explicit Rounds(const Nodes& nodes)
        : nodes_(nodes), partial_(static_cast<std::size_t>(nodes.count)), result_(partial_) {}

    void begin(double share) { rounds_.push_back({share, false}); }
    void message(std::int64_t from, std::int64_t to) {
        if (nodes_.of(from) == nodes_.of(to)) return;
        Round& round = rounds_.back();
        round.crosses = true;
        partial_[static_cast<std::size_t>(nodes_.of(from))] += round.share;
        result_[static_cast<std::size_t>(nodes_.of(to))] += round.share;
    }

    // Adds complete messages of `partial` bytes on the way up and of `result` bytes on the way
    // down.
    void take(Cost& cost, double partial, double result) const {
        for (const Round& round : rounds_) {
            Traffic& level = round.crosses ? cost.inter : cost.intra;
            const double bytes = round.share * (partial + result);
            add(level, {2.0, round.crosses ? bytes / nodes_.each : bytes});
        }
        for (std::size_t node = 0; node < partial_.size(); ++node)
            cost.node = std::max(cost.node, partial_[node] * partial + result_[node] * result);
        cost.stages = {CostStage{0.0, cost.intra.bytes}, CostStage{cost.inter.bytes, 0.0}};
    }

private:
    struct Round {
        double share;
        bool crosses;
    };
    Nodes nodes_;
    // The shares of a message that each node sends to others.
    std::vector<double> partial_, result_;
    std::vector<Round> rounds_;
};

using Parent = std::function<std::int64_t(std::int64_t place, std::int64_t lowest_bit)>;
using Rank = std::function<std::int64_t(std::int64_t place)>;

// The rounds in which the places of trees send to their parents: first the places whose lowest set
// bit is 1, then those with 2, 4, ...
Rounds climbed(const Nodes& nodes, double share, const Parent& parent,
               const std::vector<Rank>& trees) {
    Rounds rounds(nodes);
    for (std::int64_t bit = 1; bit < nodes.workers; bit *= 2) {
        rounds.begin(share);
        for (std::int64_t place = bit; place < nodes.workers; place += 2 * bit)
            for (const Rank& rank : trees) rounds.message(rank(place), rank(parent(place, bit)));
    }
    return rounds;
}

std::int64_t without_bit(std::int64_t place, std::int64_t bit) { return place - bit; }
std::int64_t itself(std::int64_t place) { return place; }

Rounds double_tree_rounds(const Nodes& nodes) {
    const std::int64_t workers = nodes.workers;
    const auto parent = [=](std::int64_t place, std::int64_t bit) {
        const std::int64_t above = (place - bit) | (2 * bit);
        return above < workers ? above : place - bit;
    };
    const auto other = [=](std::int64_t place) {
        return workers % 2 == 0 ? workers - 1 - place : (place + 1) % workers;
    };
    return climbed(nodes, 0.5, parent, {itself, other});
}

// The rounds of recursive halving: partners exchange half of their values, first those at the
// largest distance.
Rounds halving_rounds(const Nodes& nodes) {
    const auto left = static_cast<int>(std::bit_floor(static_cast<unsigned>(nodes.workers)));
    const int excess = nodes.workers - left;
    Rounds rounds(nodes);
    if (excess > 0) rounds.begin(1.0);
    for (int pair = 0; pair < excess; ++pair) rounds.message(2 * pair, 2 * pair + 1);
    const auto rank = [=](int i) { return i < excess ? 2 * i + 1 : i + excess; };
    double share = 0.5;
    for (int distance = left / 2; distance > 0; distance /= 2, share /= 2.0) {
        rounds.begin(share);
        for (int i = 0; i < left; ++i) rounds.message(rank(i), rank(i ^ distance));
    }
    return rounds;
}

// PAT has one tree per chunk, and every worker has each place in one of the W trees. A place sends
// to the worker whose rank is larger by the place's lowest set bit, so all nodes send the same
// number of bytes.
void take_pat(Cost& cost, const Nodes& nodes, double partial, double result) {
    double levels = 0.0, crossing = 0.0;
    std::vector<double> up(static_cast<std::size_t>(nodes.each)), down = up;
    for (std::int64_t bit = 1; bit < nodes.workers; bit *= 2, ++levels) {
        const auto places = static_cast<double>((nodes.workers - 1 + bit) / (2 * bit));
        for (int at = 0; at < nodes.each; ++at) {
            const std::int64_t to = (at + bit) % nodes.workers;
            if (to >= nodes.each) {
                crossing += places;
                continue;
            }
            up[static_cast<std::size_t>(at)] += places;
            down[static_cast<std::size_t>(to)] += places;
        }
    }
    double inside = 0.0;
    for (std::size_t at = 0; at < up.size(); ++at)
        inside = std::max(inside, (up[at] * partial + down[at] * result) / nodes.workers);
    cost.node = crossing * (partial + result) / nodes.workers;
    cost.inter = {2.0 * levels, cost.node / nodes.each};
    cost.intra = {0.0, inside};
    cost.stages[0] = {cost.inter.bytes, inside};
}

double larger(double a, double b) {  // NaN if either is NaN
    return std::isnan(a) || a > b ? a : b;
}

// Adds the messages of an all-to-all, then a ring of the results.
void take_shards(Cost& cost, const Nodes& nodes, const MessageBytes& b) {
    const double remote = nodes.workers - nodes.each, near = nodes.each - 1,
                 part = 1.0 / nodes.workers, side = b.side_in_parts ? part : 1.0;
    const double message = b.sent * part + b.side * side,
                 shared = (nodes.workers - 1) * (b.result * part + b.result_side * side);
    cost.inter = {remote, remote * message};
    cost.intra = {near, near * message};
    cost.stages[0] = {cost.inter.bytes, cost.intra.bytes};
    cost.node = nodes.each * cost.inter.bytes + shared;
    if (b.result + b.result_side > 0.0) take(cost, around(nodes, shared, 1), 1);
}

void check_nodes(int workers, int count) {
    if (count < 1 || workers % count != 0)
        throw std::invalid_argument("nodes=" + std::to_string(count) +
                                    " does not divide workers=" + std::to_string(workers) +
                                    "; every node has the same number of them");
    if (workers > most_workers)
        throw std::invalid_argument("workers=" + std::to_string(workers) +
                                    " are too many for nodes; use at most 1048576");
}

// The cost if there is only one node: the traffic between groups stays inside it, too.
Cost on_one_node(Cost cost) {
    add(cost.intra, cost.inter);
    cost.inter = {};
    cost.node = cost.busiest = 0.0;
    cost.stages = {CostStage{0.0, cost.intra.bytes}};
    return cost;
}

}  // namespace

std::optional<Cost> cost_on_nodes(CollectiveAlgorithm collective, const MessageBytes& b,
                                  int workers, int group, std::optional<int> count) {
    using enum CollectiveAlgorithm;
    Cost cost = collective_cost(collective, b, workers, group);
    if (!count) return cost;
    check_nodes(workers, *count);
    cost.workers_of_node = workers / *count;
    if (workers == 1) return cost;
    const Nodes nodes{workers, *count, workers / *count};
    if (nodes.count == 1) return on_one_node(cost);
    if (collective == streams) return std::nullopt;  // the receivers are not known
    if (collective == hierarchical || collective == hierarchical_shards)
        return group == nodes.each ? std::optional(cost) : std::nullopt;
    cost.inter = cost.intra = {};
    cost.stages = {};
    cost.node = 0.0;
    const double partial = b.partial + b.side, result = b.result + b.side;
    switch (collective) {
        case ring: {
            const double bytes = (workers - 1.0) / workers * (partial + result);
            take(cost, around(nodes, bytes, 2), 0);
            cost.node = bytes;
            break;
        }
        case all_gather:
            cost.node = (workers - 1.0) * (b.sent + b.side);
            take(cost, around(nodes, cost.node, 1), 0);
            break;
        case tree: climbed(nodes, 1.0, without_bit, {itself}).take(cost, partial, result); break;
        case double_tree: double_tree_rounds(nodes).take(cost, partial, result); break;
        case halving: halving_rounds(nodes).take(cost, partial, result); break;
        case pat: take_pat(cost, nodes, partial, result); break;
        default: take_shards(cost, nodes, b);
    }
    cost.busiest = cost.node / nodes.each;
    return cost;
}

std::optional<Cost> cost_on_nodes(const Way& way, int workers, std::optional<int> count) {
    if (!way.over && !way.inside)
        return cost_on_nodes(way.collective, way.bytes, workers, way.group, count);
    Cost cost = cost_of(way, workers);
    if (!count) return cost;
    check_nodes(workers, *count);
    cost.workers_of_node = workers / *count;
    if (*count == 1) return on_one_node(cost);
    return way.over && way.group == cost.workers_of_node ? std::optional(cost) : std::nullopt;
}

Cost checked_cost(std::string_view name, const MessageBytes& bytes, int workers,
                  std::optional<int> group, std::optional<int> nodes) {
    const int each = nodes && *nodes > 0 ? std::max(1, workers / *nodes) : 1;
    if (nodes && parse_collective(name) == CollectiveAlgorithm::streams)
        throw std::invalid_argument("nodes=" + std::to_string(*nodes) +
                                    " are not known to 'streams', whose bytes have no receivers; "
                                    "leave nodes out");
    const auto cost =
        cost_on_nodes(parse_collective(name), bytes, workers, group.value_or(each), nodes);
    if (!cost)
        throw std::invalid_argument("group=" + std::to_string(group.value_or(each)) +
                                    " is not the " + std::to_string(each) +
                                    " workers of a node; leave it out, or nodes");
    return *cost;
}

double latency_seconds(const Cost& cost, const Links& links) {
    return cost.inter.messages * links.inter.latency + cost.intra.messages * links.intra.latency;
}

double transfer_seconds(const Cost& cost, const Links& links) {
    const double shared =  // number of workers per interface
        links.interfaces ? std::max(1.0, cost.workers_of_node / double(*links.interfaces)) : 1.0;
    double seconds = 0.0;
    for (const CostStage& stage : cost.stages)
        seconds += larger(stage.inter * shared / links.inter.bandwidth,
                          stage.intra / links.intra.bandwidth);
    return seconds;
}

double seconds_of(const Cost& cost, const Links& links) {
    return latency_seconds(cost, links) + transfer_seconds(cost, links) +
           cost.added * links.pass_cost;
}

}  // namespace apscope::detail
