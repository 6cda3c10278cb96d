// Shannon's lower bound of a set of values.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cmath>
#include <span>
#include <vector>

#include "analysis/statistics/rate_limit.h"
#include "bindings/module/guarded.h"
#include "core/fixed_exp2.h"
#include "core/fixed_log2.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

namespace {

using Doubles = py::array_t<double, py::array::c_style>;

std::span<const double> view(const Doubles& x) {
    return {x.data(), static_cast<std::size_t>(x.size())};
}
Doubles array_of(const std::vector<double>& values) {
    return Doubles(static_cast<py::ssize_t>(values.size()), values.data());
}

}  // namespace

void bind_rate_limit(apscope::python::Module& m) {
    m.def("blur_widths", [] { return array_of(blur_widths()); });
    m.def(
        "blurred_entropies",
        [](const Doubles& values, const Doubles& widths, int threads) {
            std::vector<double> found;
            {
                const py::gil_scoped_release release;
                found = blurred_entropies(view(values), view(widths), threads);
            }
            return array_of(found);
        },
        py::arg("values").noconvert(), py::arg("widths").noconvert(), py::arg("threads"));
    m.def(
        "rate_limit",
        [](const Doubles& entropies, const Doubles& widths, const Doubles& bits) {
            if (entropies.size() != widths.size())
                throw py::value_error("there must be one entropy for each width");
            std::vector<double> limits;
            for (const double r : view(bits))
                limits.push_back(rate_limit(view(entropies), view(widths), r));
            return array_of(limits);
        },
        py::arg("entropies"), py::arg("widths"), py::arg("bits"));
    m.def(
        "block_squares",
        [](const Doubles& x, std::size_t block) {
            std::vector<double> sums;
            {
                const py::gil_scoped_release release;
                sums = block_squares(view(x), block);
            }
            return array_of(sums);
        },
        py::arg("x").noconvert(), py::arg("block"));
    m.def(
        "fixed_exp2", [](double x) { return fixed_exp2(x); }, py::arg("x"),
        "2^x, by a fixed sequence of IEEE operations.");
    m.def(
        "fixed_log2",
        [](const Doubles& x) {
            std::vector<double> logs;
            for (const double v : view(x)) {
                if (!(v > 0.0 && std::isfinite(v)))
                    throw py::value_error("log2 of a number that is not positive and finite");
                logs.push_back(fixed_log2(v));
            }
            return array_of(logs);
        },
        py::arg("x"), "log2 of positive finite numbers, by a fixed sequence of IEEE operations.");
}
