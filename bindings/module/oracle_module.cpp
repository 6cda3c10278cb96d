// apscope._oracle: the MPFR oracle for Python, a separate module, so that the rest of the package
// neither needs nor loads MPFR.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/module/guarded.h"
#include "core/named_formats.h"
#include "core/oracle/mpfr_oracle.h"
#include "emulation/machine/simd.h"
#include "emulation/verify/operations.h"
#include "emulation/verify/verify.h"

namespace py = pybind11;

namespace {

using namespace apscope;
using namespace apscope::detail;

Projection make_projection(const std::string& rounding, const std::string& overflow,
                           int random_bits, const std::string& underflow = "gradual",
                           bool keep_payload = false) {
    return {parse_rounding(rounding), parse_overflow(overflow), random_bits,
            parse_underflow(underflow), keep_payload};
}

// Reports progress to Python, and polls for signals: Ctrl-C stops the work within a moment.
oracle::Progress reporter(const py::object& progress) {
    return [&progress](std::uint64_t done, std::uint64_t total) {
        const py::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        if (!progress.is_none()) progress(done, total);
        return true;
    };
}

py::dict to_dict(const oracle::Mismatch& m) {
    py::dict d;
    d["what"] = m.what;
    d["rounding"] = std::string(to_string(m.projection.rounding));
    d["overflow"] = std::string(to_string(m.projection.overflow));
    d["underflow"] = std::string(to_string(m.projection.underflow));
    d["keep_payload"] = m.projection.keep_payload;
    d["fp64"] = m.fp64;
    d["input_is_code"] = m.input_is_code;
    d["input"] = m.input;
    d["expected"] = m.expected;
    d["got"] = m.got;
    d["random"] = m.random;
    d["lower"] = m.lower;
    d["upper"] = m.upper;
    d["text"] = oracle::describe(m);
    return d;
}

py::dict to_dict(const oracle::OperationMismatch& m) {
    py::dict d;
    d["operation"] = std::string(to_string(m.operation));
    d["rounding"] = std::string(to_string(m.projection.rounding));
    d["overflow"] = std::string(to_string(m.projection.overflow));
    d["fp64"] = m.fp64;
    d["operands"] = std::vector<std::uint64_t>(m.operands.begin(),
                                               m.operands.begin() + operand_count(m.operation));
    d["expected"] = m.expected;
    d["got"] = m.got;
    d["random"] = m.random;
    d["text"] = oracle::describe(m);
    return d;
}

template <class Result>
py::dict findings(const Result& result) {
    py::dict d;
    d["cases"] = result.cases;
    d["mismatches"] = result.mismatches;
    d["first"] = result.first ? py::object(to_dict(*result.first)) : py::none();
    return d;
}

py::dict verify(const std::string& format, const std::string& rounding, const std::string& overflow,
                const std::string& underflow, bool keep_payload, int random_bits, bool exhaustive,
                bool exhaustive_oracle, int threads, std::size_t random_cases, std::uint64_t seed,
                std::size_t thinning, const py::object& progress) {
    oracle::VerifyOptions options;
    options.exhaustive = exhaustive;
    options.exhaustive_oracle = exhaustive_oracle;
    options.threads = threads;
    options.random_cases = random_cases;
    options.seed = seed;
    options.thinning = thinning;
    const FloatFormat f = parse_format(format);
    const Projection p = make_projection(rounding, overflow, random_bits, underflow, keep_payload);
    const oracle::Progress report = reporter(progress);
    oracle::VerifyResult result;
    {
        const py::gil_scoped_release release;
        result = oracle::verify(f, p, options, report);
    }
    return findings(result);
}

py::dict verify_operation(const std::string& format, const std::string& operation,
                          const std::string& rounding, const std::string& overflow,
                          const std::string& underflow, int random_bits, bool exhaustive,
                          int threads, std::size_t samples, std::uint64_t seed,
                          const py::object& progress) {
    const oracle::OperationOptions options{exhaustive, threads, samples, seed, {}};
    const FloatFormat f = parse_format(format);
    const Operation op = parse_operation(operation);
    const Projection p = make_projection(rounding, overflow, random_bits, underflow);
    const oracle::Progress report = reporter(progress);
    oracle::OperationResult result;
    {
        const py::gil_scoped_release release;
        result = oracle::verify_operation(f, op, p, options, report);
    }
    return findings(result);
}

// The overflow rules that the format can follow.
std::vector<std::string> overflow_rules(const std::string& format) {
    const FloatFormat f = parse_format(format);
    std::vector<std::string> names;
    for (int i = 0; i < overflow_count; ++i) {
        const auto overflow = static_cast<Overflow>(i);
        const bool allowed = overflow == Overflow::infinity
                                 ? f.has_infinity
                                 : overflow != Overflow::nan || f.has_nan();
        if (allowed) names.emplace_back(to_string(overflow));
    }
    return names;
}

double project(double x, const std::string& format, const std::string& rounding,
               const std::string& overflow, const std::string& underflow, bool keep_payload,
               int random_bits, std::uint64_t random) {
    const Projection projection =
        make_projection(rounding, overflow, random_bits, underflow, keep_payload);
    return oracle::MpfrOracle(parse_format(format), projection).project(x, random);
}

}  // namespace

PYBIND11_MODULE(_oracle, plain) {
    apscope::python::Module m(plain);
    m.doc() = "The MPFR oracle: the correct results of casts, and the comparison of the emulator "
              "with them.";
    m.def(
        "verify", &verify, py::arg("format"), py::kw_only(), py::arg("rounding") = "ties_to_even",
        py::arg("overflow") = "ieee", py::arg("underflow") = "gradual",
        py::arg("keep_payload") = false, py::arg("random_bits") = 32, py::arg("exhaustive") = false,
        py::arg("exhaustive_oracle") = false, py::arg("threads") = 2,
        py::arg("random_cases") = 1'000'000, py::arg("seed") = 1, py::arg("thinning") = 1,
        py::arg("progress") = py::none(),
        "Compares the emulator with the oracles for one format and projection.\n\n"
        "Returns a dict: cases, mismatches, first (a dict of the first mismatch, or None).\n"
        "progress(done, total) is called from time to time; an exception from it stops the work.");
    m.def("verify_operation", &verify_operation, py::arg("format"), py::arg("operation"),
          py::kw_only(), py::arg("rounding") = "ties_to_even", py::arg("overflow") = "ieee",
          py::arg("underflow") = "gradual", py::arg("random_bits") = 32,
          py::arg("exhaustive") = false, py::arg("threads") = 2, py::arg("samples") = 100'000,
          py::arg("seed") = 1, py::arg("progress") = py::none(),
          "Compares an arithmetic operation in a format with MPFR. The rest as in verify().");
    m.def(
        "simd_level", [] { return std::string(to_string(simd_level())); },
        "The instruction set of the verified code.");
    m.def(
        "set_simd_level", [](const std::string& level) { set_simd_level(parse_simd_level(level)); },
        py::arg("level"),
        "This module has its own copy of the emulator, with its own instruction set.");
    m.def("mpfr_version", &oracle::version_of_mpfr, "The version of MPFR in use.");
    m.def("overflow_rules", &overflow_rules, py::arg("format"),
          "The names of the overflow rules the format can follow.");
    m.def("project", &project, py::arg("x"), py::arg("format"), py::kw_only(),
          py::arg("rounding") = "ties_to_even", py::arg("overflow") = "ieee",
          py::arg("underflow") = "gradual", py::arg("keep_payload") = false,
          py::arg("random_bits") = 32, py::arg("random") = 0,
          "One number projected by MPFR; random: random_bits bits, left-aligned in 64.");
}
