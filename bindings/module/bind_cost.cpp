// The cost model of collectives.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/cost/links.h"
#include "analysis/cost/nodes.h"
#include "analysis/cost/scheme_transport.h"
#include "bindings/module/guarded.h"
#include "bindings/module/network_links.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

namespace {

py::dict cost_dict(const Cost& cost) {
    py::dict d;
    d["messages"] = cost.inter.messages;
    d["bytes"] = cost.inter.bytes;
    d["intra_messages"] = cost.intra.messages;
    d["intra_bytes"] = cost.intra.bytes;
    d["added"] = cost.added;
    d["decoded"] = cost.decoded;
    d["busiest"] = cost.busiest;
    d["node_bytes"] = cost.node;
    d["workers_of_node"] = cost.workers_of_node;
    py::list stages;
    for (const CostStage& stage : cost.stages)
        stages.append(py::make_tuple(stage.inter, stage.intra));
    d["stages"] = py::tuple(stages);
    return d;
}

}  // namespace

void bind_cost(apscope::python::Module& m, const std::shared_ptr<MadeSchemes>& made) {
    m.def(
        "collective_cost",
        [](const std::string& collective, double sent, double partial, double result, int workers,
           std::optional<int> group, std::optional<int> nodes) {
            return cost_dict(
                checked_cost(collective, {sent, partial, result, 0.0}, workers, group, nodes));
        },
        py::arg("collective"), py::arg("sent"), py::arg("partial"), py::arg("result"),
        py::arg("workers"), py::arg("group"), py::arg("nodes"),
        "The work of one worker for one message per worker: messages sent one after another, and "
        "bytes sent, added and decoded.");
    m.def(
        "collective_seconds",
        [](const std::vector<std::pair<double, double>>& stages, double messages,
           double intra_messages, double added, int workers_of_node, const py::dict& network) {
            Cost cost;
            cost.inter.messages = messages;
            cost.intra.messages = intra_messages;
            cost.added = added;
            cost.workers_of_node = workers_of_node;
            for (std::size_t i = 0; i < cost.stages.size() && i < stages.size(); ++i)
                cost.stages[i] = {stages[i].first, stages[i].second};
            return seconds_of(cost, links_of(network));
        },
        py::arg("stages"), py::arg("messages"), py::arg("intra_messages"), py::arg("added"),
        py::arg("workers_of_node"), py::arg("network"));
    m.def(
        "known_links",
        [] {
            py::dict found;
            for (const KnownLink& link : known_links()) {
                py::dict d;
                d["bandwidth"] = link.bandwidth;
                d["rated"] = link.rated;
                d["latency"] = link.latency;
                d["interfaces"] = link.interfaces;
                d["source"] = std::string(link.source);
                found[py::str(std::string(link.name))] = d;
            }
            return found;
        },
        "Links of known hardware, by name.");
    m.def(
        "agreed_bits",
        [made](const std::string& spec, const std::string& grid, const std::string& topology) {
            return transport_of(spec, grid, topology, made.get()).agreed_bits;
        },
        py::arg("scheme"), py::arg("grid"), py::arg("topology"),
        "How many of a message's side bits are agreed before it is made; the others travel with "
        "it.");
}
