// Arithmetic on contiguous NumPy arrays. The package's arithmetic.py checks and broadcasts before it
// calls these.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <span>
#include <string>

#include "emulation/arithmetic.h"
#include "emulation/ordered_sum.h"

namespace py = pybind11;
using namespace apscope;

namespace {

using Array = py::array_t<float>;

std::span<const float> span_of(const Array& a) { return {a.data(), static_cast<std::size_t>(a.size())}; }

std::span<float> span_of(Array& a) { return {a.mutable_data(), static_cast<std::size_t>(a.size())}; }

SumOptions make_options(const FloatFormat& format, const std::string& order, std::optional<FloatFormat> accumulate,
                        std::optional<FloatFormat> product, const std::string& rounding, const std::string& overflow,
                        std::uint64_t seed, int random_bits, int threads) {
    const Projection projection{parse_rounding(rounding), parse_overflow(overflow), random_bits};
    return {parse_sum_order(order), format, accumulate, product, projection, seed, threads};
}

}  // namespace

void register_arithmetic(py::module_& m) {
    m.def("arithmetic", [](const std::string& operation, const Array& a, const Array& b, const Array& c, Array& out,
                           const FloatFormat& format, const std::string& rounding, const std::string& overflow,
                           std::uint64_t seed, int random_bits, int threads) {
        const Operation op = parse_operation(operation);
        const Projection p{parse_rounding(rounding), parse_overflow(overflow), random_bits};
        const auto x = span_of(a), y = span_of(b), z = span_of(c);
        const auto result = span_of(out);
        const py::gil_scoped_release release;
        arithmetic(op, x, y, z, result, format, p, seed, threads);
    }, py::arg("operation"), py::arg("a").noconvert(), py::arg("b").noconvert(), py::arg("c").noconvert(),
       py::arg("out").noconvert(), py::arg("format"), py::arg("rounding"), py::arg("overflow"), py::arg("seed"),
       py::arg("random_bits"), py::arg("threads"));

    m.def("ordered_sum", [](const Array& x, std::size_t terms, Array& out, const FloatFormat& format, const std::string& order,
                            std::optional<FloatFormat> accumulate, const std::string& rounding, const std::string& overflow,
                            std::uint64_t seed, int random_bits, int threads) {
        const SumOptions options = make_options(format, order, accumulate, {}, rounding, overflow, seed, random_bits, threads);
        const auto terms_of_x = span_of(x);
        const auto result = span_of(out);
        const py::gil_scoped_release release;
        ordered_sum(terms_of_x, terms, result, options);
    }, py::arg("x").noconvert(), py::arg("terms"), py::arg("out").noconvert(), py::arg("format"), py::arg("order"),
       py::arg("accumulate"), py::arg("rounding"), py::arg("overflow"), py::arg("seed"), py::arg("random_bits"), py::arg("threads"));

    const auto define_products = [&](const char* name, auto function) {
        m.def(name, [function](const Array& a, const Array& b, std::size_t size, Array& out, const FloatFormat& format,
                               const std::string& order, std::optional<FloatFormat> accumulate, std::optional<FloatFormat> product,
                               const std::string& rounding, const std::string& overflow, std::uint64_t seed, int random_bits,
                               int threads) {
            const SumOptions options = make_options(format, order, accumulate, product, rounding, overflow, seed, random_bits, threads);
            const auto x = span_of(a), y = span_of(b);
            const auto result = span_of(out);
            const py::gil_scoped_release release;
            function(x, y, size, result, options);
        }, py::arg("a").noconvert(), py::arg("b").noconvert(), py::arg("size"), py::arg("out").noconvert(), py::arg("format"),
           py::arg("order"), py::arg("accumulate"), py::arg("product"), py::arg("rounding"), py::arg("overflow"), py::arg("seed"),
           py::arg("random_bits"), py::arg("threads"));
    };
    using Numbers = std::span<const float>;
    // size: the number of terms; of a matrix product, the number of rows of a.
    define_products("ordered_dot", [](Numbers a, Numbers b, std::size_t terms, std::span<float> out, const SumOptions& options) {
        ordered_dot(a, b, terms, out, options);
    });
    define_products("ordered_matmul", [](Numbers a, Numbers b, std::size_t rows, std::span<float> out, const SumOptions& options) {
        ordered_matmul(a, b, rows, rows == 0 ? 0 : a.size() / rows, out, options);
    });
}
