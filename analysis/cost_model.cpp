#include "analysis/cost_model.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace apscope {

namespace {

double binary_levels(int workers) {  // ceil(log2 W)
    int levels = 0;
    while ((1L << levels) < workers) ++levels;
    return levels;
}

// The share of a message that leaves a worker when it is scattered over W of them.
double scattered(int workers) { return static_cast<double>(workers - 1) / workers; }

}  // namespace

Collective parse_collective(std::string_view name) {
    if (name == "ring") return Collective::ring;
    if (name == "tree") return Collective::tree;
    if (name == "halving") return Collective::halving;
    if (name == "all_gather") return Collective::all_gather;
    if (name == "shards") return Collective::shards;
    if (name == "hierarchical") return Collective::hierarchical;
    if (name == "hierarchical_shards") return Collective::hierarchical_shards;
    throw std::invalid_argument("unknown collective '" + std::string(name) +
                                "'; use ring, tree, halving, all_gather, shards, hierarchical or hierarchical_shards");
}

Cost collective_cost(Collective collective, const MessageBytes& b, int workers, int group) {
    if (workers < 1) throw std::invalid_argument("workers=" + std::to_string(workers) + " is not at least 1");
    if (group < 1) throw std::invalid_argument("group=" + std::to_string(group) + " is not at least 1");
    Cost cost;
    cost.decoded = b.result;
    if (workers == 1) return cost;
    const double others = workers - 1, share = scattered(workers), levels = binary_levels(workers);
    switch (collective) {
        case Collective::ring:
            cost.inter = {2.0 * others, share * (b.partial + b.result)};
            cost.added = share * b.partial;
            break;
        case Collective::tree:
            cost.inter = {2.0 * levels, levels * (b.partial + b.result)};
            cost.added = levels * b.partial;
            break;
        case Collective::halving:
            cost.inter = {2.0 * levels, share * (b.partial + b.result)};
            cost.added = share * b.partial;
            break;
        case Collective::all_gather:
            cost.inter = {others, others * b.sent};
            cost.added = others * b.sent;
            cost.decoded = workers * b.sent;
            break;
        case Collective::shards:
            cost.inter = {2.0 * others, share * (b.sent + b.result)};
            cost.added = share * b.sent;
            cost.decoded = b.sent + b.result;  // a part of every message, and the result
            break;
        case Collective::hierarchical:
        case Collective::hierarchical_shards: {
            const int inside = group < workers ? group : workers;
            const int nodes = (workers + inside - 1) / inside;
            const double between = (collective == Collective::hierarchical ? b.partial : b.sent) / inside;
            cost.intra = {2.0 * (inside - 1), scattered(inside) * (b.partial + b.result)};
            cost.inter = {2.0 * (nodes - 1), scattered(nodes) * (between + b.result / inside)};
            cost.added = scattered(inside) * b.partial + scattered(nodes) * between;
            break;
        }
    }
    return cost;
}

double seconds(const Traffic& traffic, const Link& link) {
    return traffic.messages * link.latency + traffic.bytes / link.bandwidth;
}

}  // namespace apscope
