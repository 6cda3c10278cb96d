// The cost model of collectives.
#include <pybind11/pybind11.h>

#include <string>

#include "analysis/cost_model.h"
#include "bindings/guarded.h"

namespace py = pybind11;
using namespace apscope;

void register_cost(apscope::python::Module& m) {
    m.def("collective_cost", [](const std::string& collective, double sent, double partial, double result, int workers, int group) {
        const Cost cost = collective_cost(parse_collective(collective), {sent, partial, result}, workers, group);
        py::dict d;
        d["messages"] = cost.inter.messages;
        d["bytes"] = cost.inter.bytes;
        d["intra_messages"] = cost.intra.messages;
        d["intra_bytes"] = cost.intra.bytes;
        d["added"] = cost.added;
        d["decoded"] = cost.decoded;
        return d;
    }, py::arg("collective"), py::arg("sent"), py::arg("partial"), py::arg("result"), py::arg("workers"), py::arg("group"),
          "What one worker sends (messages one after another, bytes), adds and decodes, in bytes, for one message a worker.");
}
