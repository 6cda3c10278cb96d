#include "bindings/cpp/apscope/cost.h"

#include "analysis/cost/links.h"
#include "analysis/cost/nodes.h"
#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/network_links.h"
#include "core/float_environment.h"

namespace apscope {

Network network_of(std::string_view inside, std::string_view between,
                   std::optional<int> nodes) try {
    const detail::KnownLink &near = detail::known_link(inside), &far = detail::known_link(between);
    return {.latency = far.latency,
            .bandwidth = far.bandwidth,
            .intra_latency = near.latency,
            .intra_bandwidth = near.bandwidth,
            .nodes = nodes,
            .interfaces = nodes ? far.interfaces : std::nullopt};
} catch (...) {
    detail::throw_error();
}

CollectiveCost collective(std::string_view name, double sent, int workers, std::optional<int> group,
                          std::optional<double> partial, std::optional<double> result,
                          std::optional<int> nodes) try {
    const detail::FloatEnvironment environment;
    const detail::Cost c = detail::checked_cost(
        name, {sent, partial.value_or(sent), result.value_or(sent), 0.0}, workers, group, nodes);
    CollectiveCost cost{c.inter.messages, c.inter.bytes, c.intra.messages,
                        c.intra.bytes,    c.added,       c.decoded,
                        c.busiest,        c.node,        c.workers_of_node};
    for (const detail::CostStage& stage : c.stages)
        cost.stages.emplace_back(stage.inter, stage.intra);
    return cost;
} catch (...) {
    detail::throw_error();
}

double seconds(const CollectiveCost& cost, const Network& network) try {
    const detail::FloatEnvironment environment;
    detail::Cost c;
    c.inter.messages = cost.messages;
    c.intra.messages = cost.intra_messages;
    c.added = cost.added;
    c.workers_of_node = cost.workers_of_node;
    for (std::size_t i = 0; i < c.stages.size() && i < cost.stages.size(); ++i)
        c.stages[i] = {cost.stages[i].first, cost.stages[i].second};
    return detail::seconds_of(c, links_of(network));
} catch (...) {
    detail::throw_error();
}

}  // namespace apscope
