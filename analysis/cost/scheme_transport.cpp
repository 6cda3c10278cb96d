#include "analysis/cost/scheme_transport.h"

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "emulation/schemes/resolved_schemes.h"
#include "emulation/schemes/two_phase.h"

namespace apscope::detail {

namespace {

std::optional<Scheme> known(std::string_view spec, const MadeSchemes* made) {
    try {
        return parse_scheme(spec, made);
    } catch (const std::invalid_argument&) {
        return std::nullopt;
    }
}

}  // namespace

Transport transport_of(std::string_view spec, std::string_view grid, std::string_view topology,
                       const MadeSchemes* made) {
    std::optional<Scheme> parsed = known(spec, made);
    if (!parsed) return {};
    const auto scheme = std::make_shared<const Scheme>(*std::move(parsed));
    std::optional<Topology> crosses;  // none: the scheme has its own reduction
    if (!collective_name(topology).empty()) crosses = parse_topology(topology);
    const auto as_reduced = [&](const std::shared_ptr<const Scheme>& one) {
        return crosses ? reduced_by(*crosses, one) : one;
    };
    for (const PolicyBranch& branch : scheme->policy.branches) {
        if (crosses && !reduces(*crosses, *branch.scheme)) continue;
        const std::shared_ptr<const Scheme> reduced = as_reduced(branch.scheme);
        if (reduced->parts.grid == grid) return reduced->parts.transport;
    }
    return as_reduced(scheme)->parts.transport;
}

TransportOf transports(const MadeSchemes* made) {
    using Key = std::tuple<std::string, std::string, std::string>;
    return
        [made, known = std::map<Key, Transport>()](const std::string& spec, const std::string& grid,
                                                   const std::string& topology) mutable {
            const auto [at, is_new] = known.try_emplace({spec, grid, topology});
            if (is_new) at->second = transport_of(spec, grid, topology, made);
            return at->second;
        };
}

}  // namespace apscope::detail
