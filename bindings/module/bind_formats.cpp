// FloatFormat and the table of named formats.
#include <pybind11/operators.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <optional>
#include <stdexcept>

#include "bindings/module/guarded.h"
#include "bindings/module/projection_class.h"
#include "core/codec.h"
#include "core/named_formats.h"
#include "core/projection.h"
#include "core/rounding_words.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

namespace {

constexpr std::array<const char*, 3> zero_names = {"both_signs", "single", "none"};

Zero parse_zero(const std::string& name) {
    for (std::size_t i = 0; i < zero_names.size(); ++i) {
        if (name == zero_names[i]) return static_cast<Zero>(i);
    }
    throw std::invalid_argument("unknown zero '" + name + "'; use both_signs, single or none");
}

FloatFormat from_fields(int exponent_bits, int mantissa_bits, std::optional<int> bias,
                        const std::string& specials, bool is_signed, std::optional<bool> subnormals,
                        std::optional<int> subnormal_exponent, std::optional<std::string> zero,
                        std::optional<std::uint64_t> nan_codes, std::optional<bool> has_infinity,
                        std::optional<bool> nan_at_negative_zero,
                        std::optional<bool> even_code_ties) {
    FloatFormat f = make_format(exponent_bits, mantissa_bits, parse_specials(specials), is_signed);
    if (bias) f = with_bias(f, *bias);
    if (subnormals) f.subnormals = *subnormals;
    if (subnormal_exponent) f.subnormal_exponent = *subnormal_exponent;
    if (!f.subnormals) f.subnormal_exponent = 1 - f.bias;  // the default of the unused field
    if (zero) f.zero = parse_zero(*zero);
    if (nan_codes) f.nan_codes = *nan_codes;
    if (has_infinity == false && f.has_infinity && f.nan_codes > 1 && !nan_codes) {
        const auto named = [&](const char* kind) {
            return make_format(exponent_bits, mantissa_bits, parse_specials(kind), is_signed)
                .name();
        };
        throw std::invalid_argument(
            "has_infinity=False leaves " + std::to_string(f.nan_codes) +
            " NaN codes a sign; give specials='fn' (no infinity, one NaN: " + named("fn") +
            "), specials='finite' (neither: " + named("finite") + "), or nan_codes");
    }
    if (has_infinity) f.has_infinity = *has_infinity;
    if (nan_at_negative_zero) f.nan_at_negative_zero = *nan_at_negative_zero;
    if (even_code_ties) f.even_code_ties = *even_code_ties;
    validate(f);
    return f;
}

py::dict fields(const FloatFormat& f) {
    py::dict d;
    d["exponent_bits"] = f.exponent_bits;
    d["mantissa_bits"] = f.mantissa_bits;
    d["bias"] = f.bias;
    d["is_signed"] = f.is_signed;
    d["subnormals"] = f.subnormals;
    d["subnormal_exponent"] = f.subnormal_exponent;
    d["zero"] = zero_names[static_cast<std::size_t>(f.zero)];
    d["nan_codes"] = f.nan_codes;
    d["has_infinity"] = f.has_infinity;
    d["nan_at_negative_zero"] = f.nan_at_negative_zero;
    d["even_code_ties"] = f.even_code_ties;
    return d;
}

}  // namespace

void bind_formats(apscope::python::Module& m) {
    python::Class<FloatFormat>(m, "FloatFormat", R"(A floating-point number system as a value.

FloatFormat("e4m3fn") reads a name: a row of `apscope formats`, an alias, a P3109 name such as
binary8p3se, or a format of your own in the words that names are printed in,
e<E>m<M>[fn|fnuz|finite][u][b<bias>][nosub|sub<exponent>][zero1|zero0][nan<codes>|nannz][inf|noinf][eventies],
in this order: the words from `fn` to `b` are specials, is_signed=False and bias, the others the fields
below. OCP's e3m2fn, e2m3fn and e2m1fn have no NaN, but before other words fn means one NaN: e3m2fnb4
has one, e3m2finiteb4 none; e3m2fnb3, with the usual bias, is refused.
FloatFormat(exponent_bits=4, mantissa_bits=3, ...) takes the fields; those left out follow from
`specials`. FloatFormat(dtype) is the format of a floating-point dtype of NumPy, ml_dtypes or torch.

Parameters
----------
exponent_bits : int, 0 to 11
mantissa_bits : int, 0 to 52
    Stored significand bits: the precision less one.
bias : int, optional
    Value = 2^(field - bias) (1 + fraction).
specials : str
    ieee (infinities and NaNs in the top exponent field), fn (the top code is NaN, no infinity),
    fnuz (NaN at the code of -0, one zero), finite, e8m0, p3109, p3109_finite.
is_signed : bool
subnormals : bool, optional
    False: exponent field 0 is an ordinary binade.
subnormal_exponent : int, optional
    1 - bias, or -bias.
zero : str, optional
    both_signs, single or none.
nan_codes : int, optional
    Codes per sign, from the top, that are NaN.
has_infinity : bool, optional
    Whether the code below the NaNs is an infinity. False needs specials "fn" or "finite", or
    nan_codes: beside "ieee" it would turn that one code into a number and leave the rest of its
    binade NaN.
nan_at_negative_zero, even_code_ties : bool, optional

Raises
------
ValueError
    An unknown or ambiguous name; fields that contradict each other; a format with values that fp64
    does not hold.
TypeError
    Neither a name nor a floating-point dtype; fields that there are not, of a wrong kind, or beside a name.

Notes
-----
Immutable, hashable, equal by its fields; str() gives the shortest name that reads back the same,
to_json() and from_json() the fields.)")
        .def(py::init([](const std::string& name) { return parse_format(name); }), py::arg("name"))
        .def(py::init(&from_fields), py::kw_only(), py::arg("exponent_bits"),
             py::arg("mantissa_bits"), py::arg("bias") = py::none(), py::arg("specials") = "ieee",
             py::arg("is_signed") = true, py::arg("subnormals") = py::none(),
             py::arg("subnormal_exponent") = py::none(), py::arg("zero") = py::none(),
             py::arg("nan_codes") = py::none(), py::arg("has_infinity") = py::none(),
             py::arg("nan_at_negative_zero") = py::none(), py::arg("even_code_ties") = py::none())
        .def(py::init([](const py::object& dtype) {  // a dtype of NumPy, ml_dtypes or torch; throws
                                                     // for anything else
                 return py::module_::import("apscope._arrays.inputs")
                     .attr("as_format")(dtype)
                     .cast<FloatFormat>();
             }),
             py::arg("dtype"))
        .def_property_readonly("name", &FloatFormat::name,
                               "The shortest name that reads back the same, as ``apscope formats`` "
                               "writes it; also ``str()`` of the format.")
        .def_readonly("exponent_bits", &FloatFormat::exponent_bits,
                      "Width of the exponent field in bits, 0 to 11. 0: no such field, all values "
                      "in one binade of subnormals.")
        .def_readonly("mantissa_bits", &FloatFormat::mantissa_bits,
                      "Stored significand bits, 0 to 52: `precision` less one.")
        .def_readonly("bias", &FloatFormat::bias,
                      "A normal value is 2^(field - bias) (1 + fraction).")
        .def_readonly("is_signed", &FloatFormat::is_signed,
                      "Whether there is a sign bit above the exponent field.")
        .def_readonly("subnormals", &FloatFormat::subnormals,
                      "Whether exponent field 0 holds zero and subnormal values; False: it is an "
                      "ordinary binade.")
        .def_readonly("subnormal_exponent", &FloatFormat::subnormal_exponent,
                      "Exponent of field 0, whose values are 2^subnormal_exponent times the "
                      "fraction: 1 - bias, or -bias.")
        .def_property_readonly(
            "zero",
            [](const FloatFormat& f) { return zero_names[static_cast<std::size_t>(f.zero)]; },
            "Which codes are zero: both_signs (+0 and -0), single (+0 alone) or none (code 0 is an "
            "ordinary value, as in e8m0).")
        .def_readonly("nan_codes", &FloatFormat::nan_codes,
                      "How many codes of each sign, from the top, are NaN. The one at the code of "
                      "-0 is not counted.")
        .def_readonly(
            "has_infinity", &FloatFormat::has_infinity,
            "Whether the code below the NaNs, or the top one, is an infinity, one of each sign.")
        .def_readonly("nan_at_negative_zero", &FloatFormat::nan_at_negative_zero,
                      "Whether the code of -0 is the NaN, as in fnuz and P3109 formats.")
        .def_readonly("even_code_ties", &FloatFormat::even_code_ties,
                      "Only for precision 1: ties go to the even code (P3109), not to the larger "
                      "magnitude (IEEE 754).")
        .def_property_readonly("has_nan", &FloatFormat::has_nan, "Whether any code is a NaN.")
        .def_property_readonly("fits_fp32", &FloatFormat::fits_fp32,
                               "Whether every finite value is an fp32 number: arrays of such a "
                               "format are float32, of others float64.")
        .def_property_readonly(
            "storage_bits", &FloatFormat::storage_bits,
            "Width of a code in bits: sign, exponent field and stored significand.")
        .def_property_readonly("precision", &FloatFormat::precision,
                               "Significant bits of a normal value, including the hidden one.")
        .def_property_readonly("emin", &FloatFormat::emin,
                               "Exponent of the smallest normal value, 1 - bias, or -bias without "
                               "subnormals; floor(log2(smallest_normal)) if there is one.")
        .def_property_readonly("emax", &FloatFormat::emax,
                               "Exponent of the largest finite value, floor(log2(largest)).")
        .def_property_readonly("largest", &FloatFormat::largest, "The largest finite value.")
        .def_property_readonly(
            "smallest_normal", &FloatFormat::smallest_normal,
            "The smallest positive normal value; 0 in a format that has only subnormal values.")
        .def_property_readonly(
            "smallest_positive", &FloatFormat::smallest_positive,
            "The smallest positive value: a subnormal one if the format has any.")
        .def_property_readonly("nan_code", &FloatFormat::nan_code,
                               "The code of the canonical NaN, with sign bit 0 except if the NaN "
                               "is at -0. ValueError in a format without NaN.")
        .def_property_readonly("infinity_code", &FloatFormat::infinity_code,
                               "The code of +infinity. ValueError in a format without infinity.")
        .def("to_dict", &fields, "The fields by name, as ``FloatFormat(**fields)`` takes them.")
        .def(
            "to_json",
            [](const FloatFormat& f) {
                return py::module_::import("json").attr("dumps")(fields(f)).cast<std::string>();
            },
            "`to_dict` as text, which `from_json` reads.")
        .def_static(
            "from_json",
            [](const std::string& text) {
                const py::dict d = py::module_::import("json").attr("loads")(text);
                return py::type::of<FloatFormat>()(**d);
            },
            py::arg("text"), "The format of a text that `to_json` made.")
        .def(py::self == py::self)
        .def("__hash__", &FloatFormat::hash)
        .def("__str__", &FloatFormat::name)
        .def("__repr__", [](const FloatFormat& f) { return "FloatFormat('" + f.name() + "')"; })
        .def(py::pickle([](const FloatFormat& f) { return f.name(); },
                        [](const std::string& name) { return parse_format(name); }));

    m.def("named_formats", [] {
        py::list rows;
        for (const NamedFormat& row : named_formats()) {
            py::dict d;
            d["name"] = row.name;
            d["aliases"] = row.aliases;
            d["origin"] = row.origin;
            d["format"] = row.format;
            rows.append(d);
        }
        return rows;
    });
    python::bind_projection(m);
    m.def(
        "rounding_word", [](const std::string& word) { return std::string(rounding_word(word)); },
        py::arg("word"),
        "The name of a rounding, from any word for it; unknown words are returned unchanged. "
        "ValueError for an ambiguous word.");
    m.def("rounding_modes", [] {
        std::vector<std::string> names;
        for (int i = 0; i < rounding_mode_count; ++i)
            names.emplace_back(to_string(static_cast<RoundingMode>(i)));
        return names;
    });
    m.def("underflow_modes", [] {
        std::vector<std::string> names;
        for (int i = 0; i < underflow_count; ++i)
            names.emplace_back(to_string(static_cast<Underflow>(i)));
        return names;
    });
    m.def("overflow_modes", [] {
        std::vector<std::string> names;
        for (int i = 0; i < overflow_count; ++i)
            names.emplace_back(to_string(static_cast<Overflow>(i)));
        return names;
    });
}
