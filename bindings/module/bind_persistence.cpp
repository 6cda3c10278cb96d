// The table of persistence: errors and updates summed over windows of consecutive steps.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/summary/optimizer.h"
#include "analysis/summary/persistence.h"
#include "bindings/module/guarded.h"
#include "bindings/module/summary_arrays.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;
using namespace apscope::python;

namespace {

// Makes the table from columns by name, which are numbers, or texts as codes and names. Without
// columns the table has no rows. optimizers: the names of the known optimizers, by trace.
WindowTable window_table(const py::dict& columns,
                         const std::map<std::string, std::string>& optimizers) {
    WindowTable table;
    if (!columns.contains("steps")) return table;
    table.rows.resize(static_cast<std::size_t>(columns["steps"].cast<IntegerArray>().size()));
    set_texts(table.rows, columns, "trace", &WindowRow::trace, table.traces);
    set_texts(table.rows, columns, "tensor", &WindowRow::tensor, table.tensors);
    set_texts(table.rows, columns, "scheme", &WindowRow::scheme, table.schemes);
    set_texts(table.rows, columns, "topology", &WindowRow::topology, table.topologies);
    set_numbers(table.rows, columns, "step", &WindowRow::step);
    set_numbers(table.rows, columns, "steps", &WindowRow::steps);
    set_numbers(table.rows, columns, "noise_blocks", &WindowRow::noise_blocks);
    set_numbers(table.rows, columns, "sum_squared_error", &WindowRow::squared_error);
    set_numbers(table.rows, columns, "sum_noise", &WindowRow::noise);
    set_numbers(table.rows, columns, "sum_log2_error_over_noise", &WindowRow::log2_over_noise);
    const auto set_updates = [&](const std::string& before, UpdateSums WindowRow::* field) {
        const auto set = [&](const char* name, double UpdateSums::* number) {
            set_numbers(table.rows, columns, (before + name).c_str(),
                        [=](WindowRow& row) -> double& { return row.*field.*number; });
        };
        set("product", &UpdateSums::product);
        set("squared_reference", &UpdateSums::squared_reference);
        set("squared_result", &UpdateSums::squared_result);
    };
    set_updates("sum_", &WindowRow::sgd);
    set_updates("adam_", &WindowRow::adam);
    for (const std::string& trace : table.traces) {
        const auto known = optimizers.find(trace);
        table.optimizers.push_back(known == optimizers.end()
                                       ? std::nullopt
                                       : std::optional(parse_optimizer(known->second)));
    }
    return table;
}

}  // namespace

void bind_persistence(apscope::python::Module& m) {
    python::Class<WindowTable>(m, "WindowTable",
                               "The table of persistence: docs/definitions.md, section 16.")
        .def(py::init(&window_table), py::arg("columns"), py::arg("optimizers"));
    m.attr("OPTIMIZERS") =
        py::make_tuple(optimizer_names[0], optimizer_names[1], optimizer_names[2]);
    m.def(
        "optimizer_told",
        [](const std::string& text) -> std::optional<std::string> {
            const auto found = optimizer_told(text);
            if (!found) return std::nullopt;
            return std::string(optimizer_names[static_cast<std::size_t>(*found)]);
        },
        py::arg("text"), "Of a trace's metadata: the name of a known optimizer, or None.");
}
