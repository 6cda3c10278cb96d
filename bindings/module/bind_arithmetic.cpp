// Arithmetic on contiguous NumPy arrays. The package's arithmetic.py checks and broadcasts before
// it calls these functions.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bindings/module/guarded.h"
#include "emulation/arithmetic/arithmetic.h"
#include "emulation/arithmetic/ordered_sum.h"
#include "emulation/arithmetic/register_arithmetic.h"
#include "emulation/arithmetic/register_sum.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

namespace {

template <class T>
std::span<const T> span_of(const py::array_t<T>& a) {
    return {a.data(), static_cast<std::size_t>(a.size())};
}
template <class T>
std::span<T> span_of(py::array_t<T>& a) {
    return {a.mutable_data(), static_cast<std::size_t>(a.size())};
}

SumOptions make_options(const FloatFormat& format, const std::string& order,
                        std::optional<FloatFormat> accumulate, std::optional<FloatFormat> product,
                        const Projection& projection, std::uint64_t seed, int threads) {
    return {parse_sum_order(order), format, accumulate, product, projection, seed, threads};
}

template <class T>
void define_operations(apscope::python::Module& m) {
    using Array = py::array_t<T>;
    m.def(
        "arithmetic",
        [](const std::string& operation, const Array& a, const Array& b, const Array& c, Array& out,
           const FloatFormat& format, const Projection& p, std::uint64_t seed, int threads) {
            const Operation op = parse_operation(operation);
            const std::span<const T> x = span_of(a), y = span_of(b), z = span_of(c);
            const std::span<T> result = span_of(out);
            const py::gil_scoped_release release;
            arithmetic(op, x, y, z, result, format, p, seed, threads);
        },
        py::arg("operation"), py::arg("a").noconvert(), py::arg("b").noconvert(),
        py::arg("c").noconvert(), py::arg("out").noconvert(), py::arg("format"),
        py::arg("projection"), py::arg("seed"), py::arg("threads"));
}

template <class T>
void define_sums(apscope::python::Module& m) {
    using Array = py::array_t<T>;
    using Numbers = std::span<const T>;
    m.def(
        "ordered_sum",
        [](const Array& x, std::size_t terms, Array& out, const FloatFormat& format,
           const std::string& order, std::optional<FloatFormat> accumulate,
           const Projection& projection, std::uint64_t seed, int threads) {
            const SumOptions options =
                make_options(format, order, accumulate, {}, projection, seed, threads);
            const Numbers terms_of_x = span_of(x);
            const std::span<T> result = span_of(out);
            const py::gil_scoped_release release;
            ordered_sum<T>(terms_of_x, terms, result, options);
        },
        py::arg("x").noconvert(), py::arg("terms"), py::arg("out").noconvert(), py::arg("format"),
        py::arg("order"), py::arg("accumulate"), py::arg("projection"), py::arg("seed"),
        py::arg("threads"));

    const auto define_products = [&](const char* name, auto function) {
        m.def(
            name,
            [function](const Array& a, const Array& b, std::size_t batches, std::size_t size,
                       Array& out, const FloatFormat& format, const std::string& order,
                       std::optional<FloatFormat> accumulate, std::optional<FloatFormat> product,
                       const Projection& projection, std::uint64_t seed, int threads,
                       const Array& c, const Array& a_scales, const Array& b_scales) {
                const SumOptions options =
                    make_options(format, order, accumulate, product, projection, seed, threads);
                const Numbers x = span_of(a), y = span_of(b), z = span_of(c);
                const UnitScales<T> scales{span_of(a_scales), span_of(b_scales)};
                const std::span<T> result = span_of(out);
                const py::gil_scoped_release release;
                function(x, y, batches, size, result, options, z, scales);
            },
            py::arg("a").noconvert(), py::arg("b").noconvert(), py::arg("batches"), py::arg("size"),
            py::arg("out").noconvert(), py::arg("format"), py::arg("order"), py::arg("accumulate"),
            py::arg("product"), py::arg("projection"), py::arg("seed"), py::arg("threads"),
            py::arg("c").noconvert(), py::arg("a_scales").noconvert() = Array(),
            py::arg("b_scales").noconvert() = Array());
    };
    // `size` is the number of terms; for matrix products, the number of rows of a matrix of `a`.
    define_products("ordered_dot",
                    [](Numbers a, Numbers b, std::size_t, std::size_t terms, std::span<T> out,
                       const SumOptions& options, Numbers c,
                       const UnitScales<T>&) { ordered_dot<T>(a, b, terms, out, options, c); });
    define_products("ordered_matmul", [](Numbers a, Numbers b, std::size_t batches,
                                         std::size_t rows, std::span<T> out,
                                         const SumOptions& options, Numbers c,
                                         const UnitScales<T>& scales) {
        const std::size_t all_rows = batches * rows;
        ordered_matmul<T>(a, b, batches, rows, all_rows == 0 ? 0 : a.size() / all_rows, out,
                          options, c, scales);
    });
}

}  // namespace

void bind_arithmetic(apscope::python::Module& m) {
    define_operations<float>(m);
    define_operations<double>(m);
    define_sums<float>(m);
    define_sums<double>(m);
    m.def(
        "arithmetic_path",
        [](const std::string& operation, const FloatFormat& format, const Projection& projection,
           bool narrow) {
            constexpr std::array names = {"exact", "odd", "wide"};
            const Operation op = parse_operation(operation);
            const Rounder rounder = make_rounder(format, projection, narrow && format.fits_fp32());
            if (narrow && format.fits_fp32()) {
                const auto in_registers = RegisterOperation::make(op, format, projection);
                if (in_registers && in_registers->narrow()) return "fp32";
            }
            return names[static_cast<std::size_t>(rounder.path(op))];
        },
        py::arg("operation"), py::arg("format"), py::arg("projection"), py::arg("narrow"));
    m.def("matrix_units", [] {
        py::list units;
        for (const MatrixUnitPreset& preset : matrix_unit_presets()) {
            const MatrixUnit& unit = preset.unit;
            py::dict row;
            row["name"] = preset.name;
            row["instruction"] = preset.instruction;
            row["inputs"] = preset.inputs;
            row["k"] = unit.instruction();
            // CDNA 1 adds exactly, CDNA 2 fp32 numbers.
            using Rule = MatrixUnit::Rule;
            const bool cuts = unit.rule != Rule::exact && unit.rule != Rule::pairwise;
            row["fraction"] = cuts ? py::cast(unit.fraction) : py::object(py::none());
            row["result"] = unit.half ? "fp16" : "fp32";
            row["result_bits"] = unit.result;
            const bool is_last = unit.rule == Rule::pairwise || unit.rule == Rule::cdna3;
            row["c"] = unit.c_last || is_last ? "last" : "term";
            constexpr std::array interleaves = {"none", "mod4", "even_odd"};
            row["interleave"] = interleaves[static_cast<std::size_t>(unit.interleave)];
            row["scales"] = preset.scales;
            row["scaled"] = unit.scaled;
            row["evidence"] = preset.evidence;
            units.append(row);
        }
        return units;
    });
    // Of an order "unit:...": the format of its results, promote (0: one chain), the formats of its
    // operands, the number of terms that share scales (0: no scales), and the scales' format.
    m.def(
        "matrix_unit_order",
        [](const std::string& order) {
            const MatrixUnitOrder unit = *parse_sum_order(order).unit;
            return std::tuple(unit.unit.half ? "fp16" : "fp32", unit.promote, unit.inputs[0],
                              unit.unit.scaled, unit.scales);
        },
        py::arg("order"));
    // Throws the reason for a name that is not a matrix unit's.
    m.def(
        "require_matrix_unit", [](const std::string& name) { matrix_unit_preset(name); },
        py::arg("name"));
    // `operands`: the format of the arrays' numbers; by default any fp32 numbers.
    m.def(
        "sum_path",
        [](bool products, const FloatFormat& format, const std::string& order,
           std::optional<FloatFormat> accumulate, std::optional<FloatFormat> product,
           std::optional<FloatFormat> operands, const Projection& projection) {
            const SumOptions options =
                make_options(format, order, accumulate, product, projection, 0, 1);
            for (const auto& f : {std::optional(format), accumulate, product}) {
                if (f) validate(options.projection, *f);
            }
            const ValueRange range = range_of(operands.value_or(make_format(8, 23)));
            return std::string(to_string(sum_path(options, products, range, range)));
        },
        py::arg("products"), py::arg("format"), py::arg("order"), py::arg("accumulate"),
        py::arg("product"), py::arg("operands"), py::arg("projection"));
}
