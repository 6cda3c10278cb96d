// The table of persistence: errors and updates summed over windows of consecutive steps.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
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

// Columns: texts as codes and names, integers and numbers; without any it has no rows. optimizers:
// the names of those of the traces that are known, by trace.
WindowTable window_table(const py::dict& texts, const py::dict& integers, const py::dict& numbers,
                         const std::map<std::string, std::string>& optimizers) {
    WindowTable table;
    if (!integers.contains("steps")) return table;
    table.rows.resize(static_cast<std::size_t>(integers["steps"].cast<IntegerArray>().size()));
    const auto add_texts = [&](const char* name, std::int32_t WindowRow::* field,
                               std::vector<std::string>& names) {
        const auto [codes, levels] =
            texts[name].cast<std::pair<CodeArray, std::vector<std::string>>>();
        for (std::size_t i = 0; i < table.rows.size(); ++i) {
            const std::int32_t code = codes.at(static_cast<py::ssize_t>(i));
            if (code < 0 || static_cast<std::size_t>(code) >= levels.size())
                throw std::invalid_argument("column '" + std::string(name) +
                                            "' of the persistence has an empty cell");
            table.rows[i].*field = code;
        }
        names = levels;
    };
    add_texts("trace", &WindowRow::trace, table.traces);
    add_texts("tensor", &WindowRow::tensor, table.tensors);
    add_texts("scheme", &WindowRow::scheme, table.schemes);
    add_texts("topology", &WindowRow::topology, table.topologies);
    const auto add = [&]<class T>(const py::dict& columns, const char* name, T WindowRow::* field) {
        const auto values = columns[name].cast<Integers<T>>();
        for (std::size_t i = 0; i < table.rows.size(); ++i)
            table.rows[i].*field = values.at(static_cast<py::ssize_t>(i));
    };
    add(integers, "step", &WindowRow::step);
    add(integers, "steps", &WindowRow::steps);
    add(integers, "noise_blocks", &WindowRow::noise_blocks);
    add(numbers, "sum_squared_error", &WindowRow::squared_error);
    add(numbers, "sum_noise", &WindowRow::noise);
    add(numbers, "sum_log2_error_over_noise", &WindowRow::log2_over_noise);
    const auto add_updates = [&](const std::string& before, UpdateSums WindowRow::* field) {
        const auto column = [&](const char* name, double UpdateSums::* number) {
            const auto values = numbers[(before + name).c_str()].cast<Numbers>();
            for (std::size_t i = 0; i < table.rows.size(); ++i)
                table.rows[i].*field.*number = values.at(static_cast<py::ssize_t>(i));
        };
        column("product", &UpdateSums::product);
        column("squared_reference", &UpdateSums::squared_reference);
        column("squared_result", &UpdateSums::squared_result);
    };
    add_updates("sum_", &WindowRow::sgd);
    add_updates("adam_", &WindowRow::adam);
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
        .def(py::init(&window_table), py::arg("texts"), py::arg("integers"), py::arg("numbers"),
             py::arg("optimizers"));
    m.attr("OPTIMIZERS") =
        py::make_tuple(optimizer_names[0], optimizer_names[1], optimizer_names[2]);
    m.def("optimizer_told", [](const std::string& text) -> std::optional<std::string> {
        const auto found = optimizer_told(text);
        if (!found) return std::nullopt;
        return std::string(optimizer_names[static_cast<std::size_t>(*found)]);
    }, py::arg("text"), "Of a trace's metadata: the name of a known optimizer, or None.");
}
