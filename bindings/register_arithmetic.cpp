// Arithmetic on contiguous NumPy arrays. The package's arithmetic.py checks and broadcasts before it
// calls these.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <span>
#include <string>

#include "emulation/arithmetic.h"

namespace py = pybind11;
using namespace apscope;

namespace {

using Array = py::array_t<float>;

std::span<const float> span_of(const Array& a) { return {a.data(), static_cast<std::size_t>(a.size())}; }

}  // namespace

void register_arithmetic(py::module_& m) {
    m.def("arithmetic", [](const std::string& operation, const Array& a, const Array& b, const Array& c, Array& out,
                           const FloatFormat& format, const std::string& rounding, const std::string& overflow,
                           std::uint64_t seed, int random_bits, int threads) {
        const Operation op = parse_operation(operation);
        const Projection p{parse_rounding(rounding), parse_overflow(overflow), random_bits};
        const auto x = span_of(a), y = span_of(b), z = span_of(c);
        const std::span<float> result(out.mutable_data(), static_cast<std::size_t>(out.size()));
        const py::gil_scoped_release release;
        arithmetic(op, x, y, z, result, format, p, seed, threads);
    }, py::arg("operation"), py::arg("a").noconvert(), py::arg("b").noconvert(), py::arg("c").noconvert(),
       py::arg("out").noconvert(), py::arg("format"), py::arg("rounding"), py::arg("overflow"), py::arg("seed"),
       py::arg("random_bits"), py::arg("threads"));
}
