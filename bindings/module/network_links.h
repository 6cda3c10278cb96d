// Converts the dict cost.Network._links to the Links of analysis/cost.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "analysis/cost/nodes.h"

inline apscope::detail::Links links_of(const pybind11::dict& network) {
    const auto of = [&](const char* name) { return network[name].cast<double>(); };
    return {{of("latency"), of("bandwidth")},
            {of("intra_latency"), of("intra_bandwidth")},
            of("pass_cost"),
            network["nodes"].cast<std::optional<int>>(),
            network["interfaces"].cast<std::optional<int>>()};
}
