// CPD's cast, exponent and matrix product.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "bindings/module/guarded.h"
#include "emulation/schemes/codecs/cpd_cast.h"
#include "emulation/schemes/codecs/cpd_gemm.h"

using namespace apscope;
using namespace apscope::detail;

namespace py = pybind11;

namespace {

using Floats = py::array_t<float, py::array::c_style>;

std::span<const float> values(const Floats& a) {
    return {a.data(), static_cast<std::size_t>(a.size())};
}

}  // namespace

void bind_cpd(apscope::python::Module& m) {
    m.def(
        "cpd_cast",
        [](const Floats& x, int exponent_bits, int mantissa_bits) {
            Floats out(std::vector<py::ssize_t>(x.shape(), x.shape() + x.ndim()));
            const std::span<float> to(out.mutable_data(), static_cast<std::size_t>(out.size()));
            const py::gil_scoped_release release;
            cpd_cast(values(x), to, exponent_bits, mantissa_bits);
            return out;
        },
        py::arg("x").noconvert(), py::arg("exponent_bits"), py::arg("mantissa_bits"));
    m.def(
        "cpd_exponent",
        [](double x) { return static_cast<double>(cpd_exponent(static_cast<float>(x))); },
        py::arg("x"));
    m.def(
        "cpd_gemm",
        [](const Floats& a, const Floats& b, int exponent_bits, int mantissa_bits, int threads) {
            Floats out({a.shape(0), b.shape(1)});
            const std::span<float> to(out.mutable_data(), static_cast<std::size_t>(out.size()));
            const auto size = [](py::ssize_t n) { return static_cast<std::size_t>(n); };
            const py::gil_scoped_release release;
            cpd_gemm(values(a), values(b), to, size(a.shape(0)), size(a.shape(1)), size(b.shape(1)),
                     exponent_bits, mantissa_bits, threads);
            return out;
        },
        py::arg("a").noconvert(), py::arg("b").noconvert(), py::arg("exponent_bits"),
        py::arg("mantissa_bits"), py::arg("threads"));
}
