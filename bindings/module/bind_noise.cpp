// The table of noise, its intervals, and the functions for intervals.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "analysis/summary/intervals.h"
#include "analysis/summary/noise.h"
#include "bindings/module/guarded.h"
#include "bindings/module/summary_arrays.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;
using namespace apscope::python;

namespace {

// Makes the table from columns by name, which are numbers, or texts as codes and names. A missing
// column is filled with 0 or "".
NoiseTable noise_table(const py::dict& columns, const IntegerArray& without) {
    NoiseTable table;
    table.rows.resize(static_cast<std::size_t>(without.size()));
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
        if (without.data()[i] >= 0) table.rows[i].without = without.data()[i];
    }
    table.traces = table.tensors = table.roles = {""};
    set_texts(table.rows, columns, "trace", &NoiseRow::trace, table.traces);
    set_texts(table.rows, columns, "tensor", &NoiseRow::tensor, table.tensors);
    set_texts(table.rows, columns, "role", &NoiseRow::role, table.roles);
    set_numbers(table.rows, columns, "step", &NoiseRow::step);
    set_numbers(table.rows, columns, "workers", &NoiseRow::workers);
    set_numbers(table.rows, columns, "blocks", &NoiseRow::blocks);
    set_numbers(table.rows, columns, "noise_blocks", &NoiseRow::noise_blocks);
    set_numbers(table.rows, columns, "lone_blocks", &NoiseRow::lone_blocks);
    set_numbers(table.rows, columns, "sum_squared_reference", &NoiseRow::squared_reference);
    set_numbers(table.rows, columns, "sum_noise", &NoiseRow::noise);
    set_numbers(table.rows, columns, "sum_log2_ratio", &NoiseRow::log2_ratio);
    return table;
}

Noise noise_of(const NoiseTable& table) {
    std::vector<const NoiseRow*> rows;
    for (const NoiseRow& row : table.rows) rows.push_back(&row);
    return Noise(rows);
}

py::tuple ends(const Interval& interval) { return py::make_tuple(interval.low, interval.high); }

}  // namespace

void bind_noise(apscope::python::Module& m) {
    python::Class<NoiseTable>(m, "NoiseTable",
                              "The table of noise: docs/definitions.md, section 16.")
        .def(py::init(&noise_table), py::arg("columns"), py::arg("without"),
             "`without`: -1 in rows of all workers.")
        .def("typical_interval", [](const NoiseTable& t) { return ends(noise_of(t).typical()); })
        .def(
            "pooled_interval",
            [](const NoiseTable& t, const std::vector<std::pair<std::int64_t, double>>& ratios) {
                return ends(noise_of(t).pooled(ratios));
            },
            py::arg("ratio_of_step"))
        .def(
            "facts",
            [](const NoiseTable& t, const std::vector<std::string>& by, double batch_factor) {
                std::vector<NoiseBy> columns;
                for (const std::string& name : by) columns.push_back(parse_noise_by(name));
                const NoiseFacts facts = noise_facts(t, columns, batch_factor);
                return py::make_tuple(to_array(facts.first), to_dict(facts.figures));
            },
            py::arg("by"), py::arg("batch_factor"));
    m.attr("LEAST_OBSERVATIONS") = detail::least_observations;
    m.def("student_t", &student_t, py::arg("freedom"),
          "Student's t at 0.975; NaN below one degree of freedom.");
    m.def("log_bias", &log_bias, py::arg("freedom"));
    m.def("bias_of_log_variance", &bias_of_log_variance, py::arg("change"), py::arg("workers"));
}
