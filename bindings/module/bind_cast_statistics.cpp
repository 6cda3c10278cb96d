// A cast and the statistics of its errors, as a dict.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <span>
#include <string>

#include "analysis/statistics/cast_statistics.h"
#include "bindings/module/guarded.h"
#include "bindings/module/statistics_dict.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

void bind_cast_statistics(apscope::python::Module& m) {
    using Array = py::array_t<float>;
    m.def(
        "cast_statistics",
        [](const Array& x, std::optional<Array> out, const FloatFormat& format, const Projection& p,
           std::uint64_t seed, int threads) {
            const std::span<const float> in(x.data(), static_cast<std::size_t>(x.size()));
            const std::span<float> result =
                out ? std::span<float>(out->mutable_data(), static_cast<std::size_t>(out->size()))
                    : std::span<float>();
            ResultRow row;
            {
                const py::gil_scoped_release release;
                row = cast_statistics(in, result, format, p, seed, threads);
            }
            return python::statistics_dict(row);
        },
        py::arg("x").noconvert(), py::arg("out").noconvert(), py::arg("format"),
        py::arg("projection"), py::arg("seed"), py::arg("threads"));
}
