// apscope._oracle: the MPFR oracle for Python. A module of its own, so that the rest of the
// package neither needs nor loads MPFR.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/named_formats.h"
#include "tests/oracle/mpfr_oracle.h"
#include "tests/oracle/verify.h"

namespace py = pybind11;

namespace {

using namespace apscope;

Projection make_projection(const std::string& rounding, const std::string& overflow, int random_bits) {
    return {parse_rounding(rounding), parse_overflow(overflow), random_bits};
}

py::dict to_dict(const oracle::Mismatch& m) {
    py::dict d;
    d["what"] = m.what;
    d["rounding"] = std::string(to_string(m.rounding));
    d["overflow"] = std::string(to_string(m.overflow));
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

py::dict verify(const std::string& format, const std::string& rounding, const std::string& overflow, int random_bits,
                bool exhaustive, bool exhaustive_oracle, int threads, std::size_t random_cases, std::uint64_t seed,
                std::size_t thinning, const py::object& progress) {
    oracle::VerifyOptions options;
    options.exhaustive = exhaustive;
    options.exhaustive_oracle = exhaustive_oracle;
    options.threads = threads;
    options.random_cases = random_cases;
    options.seed = seed;
    options.thinning = thinning;
    // Signals reach the interpreter only when asked for: Ctrl-C stops the work within a moment.
    const oracle::Progress report = [&](std::uint64_t done, std::uint64_t total) {
        const py::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        if (!progress.is_none()) progress(done, total);
        return true;
    };
    oracle::VerifyResult result;
    {
        const FloatFormat f = parse_format(format);
        const Projection p = make_projection(rounding, overflow, random_bits);
        const py::gil_scoped_release release;
        result = oracle::verify(f, p, options, report);
    }
    py::dict d;
    d["cases"] = result.cases;
    d["mismatches"] = result.mismatches;
    d["first"] = result.first ? py::object(to_dict(*result.first)) : py::none();
    return d;
}

// The overflow rules that the format can follow.
std::vector<std::string> overflow_rules(const std::string& format) {
    const FloatFormat f = parse_format(format);
    std::vector<std::string> names;
    for (int i = 0; i < overflow_count; ++i) {
        const auto overflow = static_cast<Overflow>(i);
        const bool allowed = overflow == Overflow::infinity ? f.has_infinity : overflow != Overflow::nan || f.has_nan();
        if (allowed) names.emplace_back(to_string(overflow));
    }
    return names;
}

float project(float x, const std::string& format, const std::string& rounding, const std::string& overflow,
              int random_bits, std::uint64_t random) {
    return oracle::MpfrOracle(parse_format(format), make_projection(rounding, overflow, random_bits)).project(x, random);
}

}  // namespace

PYBIND11_MODULE(_oracle, m) {
    m.doc() = "The MPFR oracle: what a cast should give, and the comparison of the emulator with it.";
    m.def("verify", &verify, py::arg("format"), py::kw_only(), py::arg("rounding") = "ties_to_even",
          py::arg("overflow") = "ieee", py::arg("random_bits") = 32, py::arg("exhaustive") = false,
          py::arg("exhaustive_oracle") = false, py::arg("threads") = 2, py::arg("random_cases") = 1'000'000,
          py::arg("seed") = 1, py::arg("thinning") = 1, py::arg("progress") = py::none(),
          "Compares the emulator with the oracles for one format, rounding and overflow rule.\n\n"
          "Returns a dict: cases, mismatches, first (a dict of the first mismatch, or None).\n"
          "progress(done, total) is called every now and then; an exception from it stops the work.");
    m.def("overflow_rules", &overflow_rules, py::arg("format"), "The names of the overflow rules the format can follow.");
    m.def("project", &project, py::arg("x"), py::arg("format"), py::kw_only(), py::arg("rounding") = "ties_to_even",
          py::arg("overflow") = "ieee", py::arg("random_bits") = 32, py::arg("random") = 0,
          "One number projected by MPFR; random: random_bits bits, left-aligned in 64.");
}
