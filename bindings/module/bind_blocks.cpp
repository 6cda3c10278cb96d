// BlockFormat, the block casts and packing. The package's blocks.py checks shapes and dtypes first.
#include <pybind11/numpy.h>
#include <pybind11/operators.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <span>
#include <stdexcept>
#include <string>
#include <tuple>

#include "bindings/module/guarded.h"
#include "bindings/module/spans.h"
#include "core/block_format.h"
#include "core/named_formats.h"
#include "emulation/blocks/blocks.h"
#include "emulation/cast/packing.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

using apscope::python::in_span;
using apscope::python::out_span;

namespace {

using Bytes = py::array_t<std::uint8_t>;
using Shape = std::tuple<std::size_t, std::size_t, std::size_t>;

BlockShape block_shape(const Shape& shape) {
    return {std::get<0>(shape), std::get<1>(shape), std::get<2>(shape)};
}

BlockFormat from_fields(const FloatFormat& element, const FloatFormat& scale, int block_size,
                        const std::string& rule, bool twos_complement, bool tensor_scale,
                        const std::string& nonfinite) {
    const BlockFormat f{element,
                        twos_complement,
                        scale,
                        block_size,
                        parse_scale_rule(rule),
                        tensor_scale,
                        parse_block_nonfinite(nonfinite)};
    validate(f);
    return f;
}

py::dict fields(const BlockFormat& f) {
    py::dict d;
    d["element"] = f.element.name();
    d["scale"] = f.scale.name();
    d["block_size"] = f.block_size;
    d["rule"] = to_string(f.rule);
    d["twos_complement"] = f.twos_complement;
    d["tensor_scale"] = f.tensor_scale;
    d["nonfinite"] = to_string(f.nonfinite);
    return d;
}

// The inverse of fields(); the last five keys may be missing.
BlockFormat from_dict(const py::object& value) {
    if (!py::isinstance<py::dict>(value))
        throw std::invalid_argument(
            "a block format's JSON is an object with 'element' and 'scale'");
    const py::dict d = value;
    const py::dict known = fields(BlockFormat{});
    for (const auto& item : d) {
        if (!known.contains(item.first)) {
            throw std::invalid_argument("a block format's JSON has no key '" +
                                        py::str(item.first).cast<std::string>() + "'");
        }
    }
    const auto text = [&](const char* key, const char* otherwise) {
        if (!d.contains(key) && otherwise) return std::string(otherwise);
        if (!d.contains(key) || !py::isinstance<py::str>(d[key])) {
            throw std::invalid_argument("a block format's JSON needs a string as '" +
                                        std::string(key) + "'");
        }
        return d[key].cast<std::string>();
    };
    const auto flag = [&](const char* key) { return d.contains(key) && d[key].cast<bool>(); };
    const FloatFormat element = parse_format(text("element", nullptr)),
                      scale = parse_format(text("scale", nullptr));
    return from_fields(element, scale, d.contains("block_size") ? d["block_size"].cast<int>() : 32,
                       text("rule", "floor"), flag("twos_complement"), flag("tensor_scale"),
                       text("nonfinite", "apart"));
}

template <class Real>
void define_casts(apscope::python::Module& m) {
    m.def(
        "quantize_blocks",
        [](const py::array_t<Real>& x, py::array_t<Real>& out, const Shape& shape,
           const BlockFormat& format, const Projection& p, std::uint64_t seed, int threads) {
            const auto in = in_span(x);
            const auto result = out_span(out);
            const py::gil_scoped_release release;
            quantize_blocks(in, result, block_shape(shape), format, p, seed, threads);
        },
        py::arg("x").noconvert(), py::arg("out").noconvert(), py::arg("shape"), py::arg("format"),
        py::arg("projection"), py::arg("seed"), py::arg("threads"));
    m.def(
        "encode_blocks",
        [](const py::array_t<Real>& x, Bytes& codes, Bytes& scales, const Shape& shape,
           const BlockFormat& format, const Projection& p, std::uint64_t seed, int threads) {
            const auto in = in_span(x);
            const auto element_codes = out_span(codes), scale_codes = out_span(scales);
            const py::gil_scoped_release release;
            return static_cast<double>(encode_blocks(in, element_codes, scale_codes,
                                                     block_shape(shape), format, p, seed, threads));
        },
        py::arg("x").noconvert(), py::arg("codes").noconvert(), py::arg("scales").noconvert(),
        py::arg("shape"), py::arg("format"), py::arg("projection"), py::arg("seed"),
        py::arg("threads"));
}

}  // namespace

void bind_blocks(apscope::python::Module& m) {
    python::Class<BlockFormat>(m, "BlockFormat", R"(Elements that share a scale, as a value.

`name`: mxfp8_e4m3, mxfp8_e5m2, mxfp6_e3m2, mxfp6_e2m3, mxfp4, mxint8, nvfp4, bfp:<bits>:<block> or
blocks:<element>, each followed by any of ,scale=<format> ,block=<size> ,rule=<rule>
,nonfinite=<rule> ,tensor. Or the fields by keyword: `element` and `scale` (formats of at most 8 bits),
`block_size`, `rule` (floor, ceil, rceil, even, nearest: powers of two; ratio: amax over the largest
element), `twos_complement` (element codes are two's complement integers), `tensor_scale` (one float32
scale more for the whole array), `nonfinite` (what an infinity or a NaN does to its block: apart,
torchao, torchao_0.18 or transformer_engine; docs/definitions.md, section 11).)")
        .def(py::init([](const std::string& name) { return parse_block_format(name); }),
             py::arg("name"))
        .def(py::init([](const py::object& name) {  // throws for other objects, and invalid UTF-8
                 return parse_block_format(py::module_::import("apscope._arrays.checks")
                                               .attr("text")("name", name)
                                               .cast<std::string>());
             }),
             py::arg("name"))
        .def(py::init(&from_fields), py::kw_only(), py::arg("element"), py::arg("scale"),
             py::arg("block_size") = 32, py::arg("rule") = "floor",
             py::arg("twos_complement") = false, py::arg("tensor_scale") = false,
             py::arg("nonfinite") = "apart")
        .def_property_readonly(
            "name", &BlockFormat::name,
            "The shortest name that reads back the same; also ``str()`` of the format.")
        .def_readonly("element", &BlockFormat::element,
                      "The format of the elements, at most 8 bits.")
        .def_readonly("scale", &BlockFormat::scale, "The format of the scales, at most 8 bits.")
        .def_readonly("block_size", &BlockFormat::block_size,
                      "Elements that share a scale; the last block of a line may be shorter.")
        .def_property_readonly(
            "rule", [](const BlockFormat& f) { return to_string(f.rule); },
            "How a scale is computed from the largest magnitude of its block: "
            "floor, ceil, rceil, even, nearest or ratio.")
        .def_readonly(
            "twos_complement", &BlockFormat::twos_complement,
            "Whether element codes are two's complement integers, not sign and magnitude.")
        .def_readonly("tensor_scale", &BlockFormat::tensor_scale,
                      "Whether the whole array has an additional float32 scale.")
        .def_property_readonly(
            "nonfinite", [](const BlockFormat& f) { return to_string(f.nonfinite); },
            "What an infinity or a NaN does to its block: apart, torchao, "
            "torchao_0.18 or transformer_engine.")
        .def_property_readonly("bits_per_element", &BlockFormat::bits_per_element,
                               "Bits of storage per element: its code and its share of the scale "
                               "of a whole block, without the tensor scale.")
        .def("to_dict", &fields, "The fields by name, the formats as names.")
        .def(
            "to_json",
            [](const BlockFormat& f) {
                return py::module_::import("json").attr("dumps")(fields(f)).cast<std::string>();
            },
            "`to_dict` as text, which `from_json` reads.")
        .def_static(
            "from_json",
            [](const std::string& text) {
                return from_dict(py::module_::import("json").attr("loads")(text));
            },
            py::arg("text"), "The block format of a text that `to_json` made.")
        .def(py::self == py::self)
        .def("__hash__", &BlockFormat::hash)
        .def("__str__", &BlockFormat::name)
        .def("__repr__", [](const BlockFormat& f) { return "BlockFormat('" + f.name() + "')"; })
        .def(py::pickle([](const BlockFormat& f) { return f.name(); },
                        [](const std::string& name) { return parse_block_format(name); }));

    m.def("named_block_formats", [] {
        py::list rows;
        for (const NamedBlockFormat& row : named_block_formats()) {
            py::dict d;
            d["name"] = row.name;
            d["origin"] = row.origin;
            d["format"] = row.format;
            rows.append(d);
        }
        return rows;
    });

    define_casts<float>(m);
    define_casts<double>(m);
    m.def(
        "decode_blocks",
        [](const Bytes& codes, const Bytes& scales, double tensor_scale, py::array_t<float>& out,
           const Shape& shape, const BlockFormat& format, int threads) {
            const auto element_codes = in_span(codes), scale_codes = in_span(scales);
            const auto result = out_span(out);
            const py::gil_scoped_release release;
            decode_blocks(element_codes, scale_codes, static_cast<float>(tensor_scale), result,
                          block_shape(shape), format, threads);
        },
        py::arg("codes").noconvert(), py::arg("scales").noconvert(), py::arg("tensor_scale"),
        py::arg("out").noconvert(), py::arg("shape"), py::arg("format"), py::arg("threads"));

    m.def("packed_size", &packed_size, py::arg("count"), py::arg("bits"));
    m.def(
        "pack",
        [](const Bytes& codes, Bytes& bytes, std::size_t lines, int bits) {
            const auto in = in_span(codes);
            const auto result = out_span(bytes);
            const py::gil_scoped_release release;
            pack(in, result, lines, bits);
        },
        py::arg("codes").noconvert(), py::arg("bytes").noconvert(), py::arg("lines"),
        py::arg("bits"));
    m.def(
        "unpack",
        [](const Bytes& bytes, Bytes& codes, std::size_t lines, int bits) {
            const auto in = in_span(bytes);
            const auto result = out_span(codes);
            const py::gil_scoped_release release;
            unpack(in, result, lines, bits);
        },
        py::arg("bytes").noconvert(), py::arg("codes").noconvert(), py::arg("lines"),
        py::arg("bits"));
}
