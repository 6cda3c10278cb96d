#include "bindings/cpp/apscope/cost.h"

#include "analysis/cost/cost_model.h"
#include "core/float_environment.h"

namespace apscope {

CollectiveCost collective(std::string_view name, double sent, int workers, int group,
                          std::optional<double> partial, std::optional<double> result) {
    const detail::FloatEnvironment environment;
    const detail::Cost c = detail::collective_cost(
        detail::parse_collective(name), {sent, partial.value_or(sent), result.value_or(sent), 0.0},
        workers, group);
    return {c.inter.messages, c.inter.bytes, c.intra.messages, c.intra.bytes,
            c.added,          c.decoded,     c.busiest};
}

double seconds(const CollectiveCost& cost, const Network& network) {
    const detail::FloatEnvironment environment;
    return cost.messages * network.latency + cost.bytes / network.bandwidth +
           cost.intra_messages * network.intra_latency.value_or(network.latency) +
           cost.intra_bytes / network.intra_bandwidth.value_or(network.bandwidth) +
           cost.added * network.pass_cost;
}

}  // namespace apscope
