// Casts, codes, allreduce and the level of vector instructions, on contiguous NumPy arrays. The
// package's _arrays/ checks shapes, dtypes and contiguity before it calls these functions.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "bindings/module/guarded.h"
#include "bindings/module/spans.h"
#include "core/named_formats.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/cast/cast_plan.h"
#include "emulation/cast/quantize.h"
#include "emulation/cast/quantize_scaled.h"
#include "emulation/machine/parallel.h"
#include "emulation/machine/processors.h"
#include "emulation/machine/simd.h"

namespace py = pybind11;
using namespace apscope;
using namespace apscope::detail;

using apscope::python::in_span;
using apscope::python::out_span;

namespace {

using Words = std::optional<py::array_t<std::uint64_t>>;

RandomSource source_of(std::uint64_t seed, const Words& random) {
    RandomSource source{seed, 0, {}};
    if (random) source.words = in_span(*random);
    return source;
}

template <class T>
void define_quantize(apscope::python::Module& m) {
    m.def(
        "quantize",
        [](const py::array_t<T>& x, py::array_t<T>& out, const FloatFormat& format,
           const Projection& projection, std::uint64_t seed, const Words& random, int threads) {
            validate(projection, format);
            const RandomSource source = source_of(seed, random);
            const auto in = in_span(x);
            const auto result = out_span(out);
            const py::gil_scoped_release release;
            quantize(in, result, format, projection, source, threads);
        },
        py::arg("x").noconvert(), py::arg("out").noconvert(), py::arg("format"),
        py::arg("projection"), py::arg("seed"), py::arg("random").noconvert(), py::arg("threads"));
}

template <class T>
void define_quantize_scaled(apscope::python::Module& m) {
    m.def(
        "quantize_scaled",
        [](const py::array_t<T>& x, py::array_t<T>& out, const FloatFormat& format,
           const Projection& projection, std::uint64_t seed, const Words& random, int threads,
           double scale) {
            validate(projection, format);
            const RandomSource source = source_of(seed, random);
            const auto in = in_span(x);
            const auto result = out_span(out);
            const py::gil_scoped_release release;
            quantize_scaled(in, result, scale, format, projection, source, threads);
        },
        py::arg("x").noconvert(), py::arg("out").noconvert(), py::arg("format"),
        py::arg("projection"), py::arg("seed"), py::arg("random").noconvert(), py::arg("threads"),
        py::arg("scale"));
}

template <class T, class Code>
void define_codes(apscope::python::Module& m) {
    m.def(
        "encode",
        [](const py::array_t<T>& x, py::array_t<Code>& out, const FloatFormat& format,
           const Projection& projection, std::uint64_t seed, const Words& random, int threads,
           std::optional<std::uint64_t> nan) {
            validate(projection, format);
            const RandomSource source = source_of(seed, random);
            const auto in = in_span(x);
            const auto result = out_span(out);
            const py::gil_scoped_release release;
            encode<T, Code>(in, result, format, projection, nan, source, threads);
        },
        py::arg("x").noconvert(), py::arg("out").noconvert(), py::arg("format"),
        py::arg("projection"), py::arg("seed"), py::arg("random").noconvert(), py::arg("threads"),
        py::arg("nan"));
    m.def(
        "decode",
        [](const py::array_t<Code>& codes, py::array_t<T>& out, const FloatFormat& format,
           bool keep_payload, int threads) {
            const auto in = in_span(codes);
            const auto result = out_span(out);
            const py::gil_scoped_release release;
            decode<Code, T>(in, result, format, keep_payload, threads);
        },
        py::arg("codes").noconvert(), py::arg("out").noconvert(), py::arg("format"),
        py::arg("keep_payload"), py::arg("threads"));
}

}  // namespace

void bind_arrays(apscope::python::Module& m) {
    define_quantize<float>(m);
    define_quantize<double>(m);
    define_quantize_scaled<float>(m);
    define_quantize_scaled<double>(m);
    define_codes<float, std::uint8_t>(m);
    define_codes<float, std::uint16_t>(m);
    define_codes<float, std::uint32_t>(m);
    define_codes<double, std::uint8_t>(m);
    define_codes<double, std::uint16_t>(m);
    define_codes<double, std::uint32_t>(m);
    define_codes<double, std::uint64_t>(m);

    m.def(
        "cast_plan",
        [](const FloatFormat& format, const Projection& p, bool in_float64) {
            validate(p, format);
            const auto words = [](const auto& plan) {
                return std::array{to_string(plan.path), plan.how(), plan.reason()};
            };
            return in_float64 ? words(make_plan<double>(format, p))
                              : words(make_plan<float>(format, p));
        },
        py::arg("format"), py::arg("projection"), py::arg("in_float64"));
    m.def(
        "widen",
        [](const py::array_t<float>& x, py::array_t<double>& out) {
            widen(in_span(x), out_span(out));
        },
        py::arg("x").noconvert(), py::arg("out").noconvert());
    m.def(
        "narrow",
        [](const py::array_t<double>& x, py::array_t<float>& out) {
            narrow(in_span(x), out_span(out));
        },
        py::arg("x").noconvert(), py::arg("out").noconvert());

    m.def(
        "allreduce",
        [](const py::array_t<float>& x, py::array_t<double>& out, const FloatFormat& format,
           const std::string& topology, std::optional<FloatFormat> accumulate,
           std::optional<std::string> hop_rounding, bool input_cast, const Projection& projection,
           std::uint64_t seed, int threads) {
            AllReduceOptions options;
            options.topology = parse_topology(topology);
            require_fp32(format, "allreduce");
            if (accumulate) require_fp32(*accumulate, "allreduce");
            options.projection = projection;
            validate(options.projection, format);
            options.accumulate = accumulate;
            if (hop_rounding) options.hop_rounding = parse_rounding(*hop_rounding);
            options.input_cast = input_cast;
            options.seed = seed;
            options.threads = threads;
            const auto in = in_span(x);
            const auto result = out_span(out);
            const auto workers = static_cast<std::size_t>(x.shape(0));
            const py::gil_scoped_release release;
            all_reduce(in, workers, result, format, options);
        },
        py::arg("x").noconvert(), py::arg("out").noconvert(), py::arg("format"),
        py::arg("topology"), py::arg("accumulate"), py::arg("hop_rounding"), py::arg("input_cast"),
        py::arg("projection"), py::arg("seed"), py::arg("threads"));

    m.def(
        "stream_seed",
        [](std::uint64_t seed, std::int64_t number) {
            const PhiloxKey key = replay_key(seed, "", number);
            return std::uint64_t{key.high} << 32 | key.low;
        },
        py::arg("seed"), py::arg("number"));
    m.def("usable_processors", &usable_processors);
    m.def(
        "set_share_of_a_thread",
        [](double seconds) {
            pieces::set_share(std::chrono::duration_cast<std::chrono::nanoseconds>(
                std::chrono::duration<double>(seconds)));
        },
        py::arg("seconds"),
        "The work that must remain of an array for each further thread; 0: threads start at once.");
    m.def("simd_level", [] { return std::string(to_string(simd_level())); });
    m.def("best_simd_level", [] { return std::string(to_string(best_simd_level())); });
    m.def(
        "set_simd_level", [](const std::string& level) { set_simd_level(parse_simd_level(level)); },
        py::arg("level"));
}
