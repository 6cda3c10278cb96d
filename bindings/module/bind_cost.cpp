// The cost model of collectives.
#include <pybind11/pybind11.h>

#include <string>

#include "analysis/cost/cost_model.h"
#include "bindings/module/guarded.h"
#include "emulation/schemes/definition.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

namespace {

// How the rows of a scheme with this column `format` are sent: for a policy, by the first branch
// that has it. Without a spec only the topology is known.
Transport transport_of(const MadeSchemes& made, const std::string& spec, const std::string& grid) {
    if (spec.empty()) return {};
    const Scheme scheme = parse_scheme(spec, &made);
    if (const auto* policy = std::get_if<Policy>(&scheme.kind)) {
        for (const PolicyBranch& branch : policy->branches) {
            if (branch.scheme->grid_name() == grid) return branch.scheme->transport();
        }
    }
    return scheme.transport();
}

}  // namespace

void bind_cost(apscope::python::Module& m, const std::shared_ptr<MadeSchemes>& made) {
    m.def("collective_cost",
          [](const std::string& collective, double sent, double partial, double result, double side,
             int workers, int group) {
        const Cost cost = collective_cost(parse_collective(collective),
                                          {sent, partial, result, side}, workers, group);
        py::dict d;
        d["messages"] = cost.inter.messages;
        d["bytes"] = cost.inter.bytes;
        d["intra_messages"] = cost.intra.messages;
        d["intra_bytes"] = cost.intra.bytes;
        d["added"] = cost.added;
        d["decoded"] = cost.decoded;
        d["busiest"] = cost.busiest;
        return d;
    },
          py::arg("collective"), py::arg("sent"), py::arg("partial"), py::arg("result"),
          py::arg("side"), py::arg("workers"), py::arg("group"),
          "The work of one worker for one message per worker: messages sent one after another, and "
          "bytes sent, added and decoded.");
    m.def("agreed_bits",
          [made](const std::string& spec, const std::string& grid) {
        return transport_of(*made, spec, grid).agreed_bits;
    }, py::arg("scheme"), py::arg("grid"),
          "How many of a message's side bits are agreed before it is made; the others travel with "
          "it.");
    m.def("collective_of", [](const std::string& topology) -> py::object {
        const auto found = collective_of(topology);
        return found ? py::object(py::make_tuple(name_of(found->first), found->second))
                     : py::none();
    }, py::arg("topology"));
    m.def(
        "way",
        [made](const std::string& spec, const std::string& grid, const std::string& topology,
               double values, double payload, double side, int workers) -> py::object {
        const std::optional<Way> way =
            way_of(transport_of(*made, spec, grid), topology, values, payload, side, workers);
        if (!way) return py::none();
        py::dict d;
        d["collective"] = name_of(way->collective);
        d["group"] = way->group;
        d["rounds"] = way->rounds;
        d["sent"] = way->bytes.sent;
        d["partial"] = way->bytes.partial;
        d["result"] = way->bytes.result;
        d["side"] = way->bytes.side;
        return d;
    },
        py::arg("scheme"), py::arg("grid"), py::arg("topology"), py::arg("values"),
        py::arg("payload"), py::arg("side"), py::arg("workers"),
        "How the messages of a scheme are sent, in bytes; None if no algorithm computes that sum.");
}
