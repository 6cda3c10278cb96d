#include "analysis/cost/scheme_transport.h"

#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

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

Transport transport_of(std::string_view spec, std::string_view grid, const MadeSchemes* made) {
    const std::optional<Scheme> scheme = known(spec, made);
    if (!scheme) return {};
    for (const PolicyBranch& branch : scheme->policy.branches)
        if (branch.scheme->parts.grid == grid) return branch.scheme->parts.transport;
    return scheme->parts.transport;
}

TransportOf transports(const MadeSchemes* made) {
    return [made, known = std::map<std::pair<std::string, std::string>, Transport>()](
               const std::string& spec, const std::string& grid) mutable {
        const auto [at, is_new] = known.try_emplace({spec, grid});
        if (is_new) at->second = transport_of(spec, grid, made);
        return at->second;
    };
}

}  // namespace apscope::detail
