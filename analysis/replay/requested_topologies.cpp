#include "analysis/replay/requested_topologies.h"

#include <algorithm>

#include "emulation/schemes/two_phase.h"

namespace apscope::detail {

RequestedTopologies::RequestedTopologies(std::span<const Topology> topologies) {
    for (const Topology& t : topologies) {
        if (t.kind == Topology::Kind::exact) continue;
        requested_.push_back({t.name(), t.is_order()});
        if (t.is_order()) orders_.push_back(t);
        if (t.kind != Topology::Kind::levels && t.phases.text().empty()) common_.push_back(t);
    }
}

std::span<const Topology> RequestedTopologies::orders_of(const SchemeParts& scheme) const {
    return has_two_phases(scheme) ? orders_ : common_;
}

std::uint32_t RequestedTopologies::place_of(const std::string& topology, bool wire) const {
    const auto match = std::ranges::find(requested_, topology, &Requested::name);
    const bool requested = match != requested_.end();
    if (topology.empty() || (wire && (!requested || match->is_order))) return 0;
    if (topology == "exact") return 1;
    return requested ? 3 + static_cast<std::uint32_t>(match - requested_.begin()) : 2;
}

}  // namespace apscope::detail
