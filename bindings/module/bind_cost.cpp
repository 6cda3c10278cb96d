// The cost model of collectives.
#include <pybind11/pybind11.h>

#include <string>

#include "analysis/cost/cost_model.h"
#include "analysis/cost/scheme_transport.h"
#include "bindings/module/guarded.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

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
          [made](const std::string& spec, const std::string& grid, const std::string& topology) {
        return transport_of(spec, grid, topology, made.get()).agreed_bits;
    }, py::arg("scheme"), py::arg("grid"), py::arg("topology"),
          "How many of a message's side bits are agreed before it is made; the others travel with "
          "it.");
}
