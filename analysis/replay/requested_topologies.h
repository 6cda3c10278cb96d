// The topologies that a replay was asked for: those that a scheme's codes are added in, and the
// place of every topology's rows among the rows of a scheme.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emulation/allreduce/topology.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

class RequestedTopologies {
public:
    explicit RequestedTopologies(std::span<const Topology> topologies);

    // The topologies that add a scheme's codes.
    std::span<const Topology> orders_of(const SchemeParts& scheme) const;
    // The orders of additions, for schemes whose reductions in two phases are schemes of their own;
    // common(): these and two_phase, for all others.
    const std::vector<Topology>& orders() const { return orders_; }
    const std::vector<Topology>& common() const { return common_; }
    // The position of a topology's rows among the rows of a scheme: the wire, exact, the scheme's
    // own reduction, then the requested topologies. The wire row of a topology with its own
    // messages, such as two_phase, has that topology's position.
    std::uint32_t place_of(const std::string& topology, bool wire) const;

private:
    struct Requested {
        std::string name;
        bool is_order;
    };
    std::vector<Requested> requested_;  // without exact
    std::vector<Topology> orders_, common_;
};

}  // namespace apscope::detail
