// Limits on inputs, and the available memory, for bindings/apscope/_limits.py.
#include <pybind11/pybind11.h>

#include "bindings/module/guarded.h"
#include "core/limits.h"
#include "emulation/machine/memory.h"

namespace py = pybind11;
using namespace apscope::detail;

void bind_limits(apscope::python::Module& m);

void bind_limits(apscope::python::Module& m) {
    py::dict numbers;
    numbers["spec_depth"] = limits::spec_depth;
    numbers["spec_length"] = limits::spec_length;
    numbers["pattern_length"] = limits::pattern_length;
    numbers["pattern_memory"] = limits::pattern_memory;
    numbers["name_length"] = limits::name_length;
    numbers["json_depth"] = limits::json_depth;
    numbers["safetensors_header"] = limits::safetensors_header;
    numbers["manifest_length"] = limits::manifest_length;
    numbers["workers"] = limits::workers;
    numbers["quoted"] = limits::quoted;
    m.attr("LIMITS") = numbers;
    m.def("machine_memory", &machine_memory,
          "Bytes of memory: the least of those of this machine, of its control group and of its "
          "address limit.");
}
