// The table of persistence: errors summed over windows of consecutive steps.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "analysis/summary/persistence.h"
#include "bindings/module/guarded.h"
#include "bindings/module/summary_arrays.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;
using namespace apscope::python;

namespace {

// Columns: texts as codes and names, integers and numbers; without any it has no rows.
WindowTable window_table(const py::dict& texts, const py::dict& integers, const py::dict& numbers) {
    WindowTable table;
    if (!integers.contains("steps")) return table;
    table.rows.resize(static_cast<std::size_t>(integers["steps"].cast<IntegerArray>().size()));
    set_texts(table.rows, texts, "trace", &WindowRow::trace, table.traces);
    set_texts(table.rows, texts, "tensor", &WindowRow::tensor, table.tensors);
    set_texts(table.rows, texts, "scheme", &WindowRow::scheme, table.schemes);
    set_texts(table.rows, texts, "topology", &WindowRow::topology, table.topologies);
    set_numbers(table.rows, integers, "step", &WindowRow::step);
    set_numbers(table.rows, integers, "steps", &WindowRow::steps);
    set_numbers(table.rows, integers, "noise_blocks", &WindowRow::noise_blocks);
    set_numbers(table.rows, numbers, "sum_squared_error", &WindowRow::squared_error);
    set_numbers(table.rows, numbers, "sum_noise", &WindowRow::noise);
    set_numbers(table.rows, numbers, "sum_log2_error_over_noise", &WindowRow::log2_over_noise);
    return table;
}

}  // namespace

void bind_persistence(apscope::python::Module& m) {
    python::Class<WindowTable>(m, "WindowTable",
                               "The table of persistence: docs/definitions.md, section 16.")
        .def(py::init(&window_table), py::arg("texts"), py::arg("integers"), py::arg("numbers"));
}
