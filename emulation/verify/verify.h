// Verifies one format with one projection on this machine: compares the rounding rule with both
// oracles, the array path with the rule, and encode() and decode() with the values of codes in the
// oracle. All comparisons are made in fp64, and also in fp32 if the format's values are fp32
// numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/float_format.h"
#include "core/projection.h"

namespace apscope::detail::oracle {

struct VerifyOptions {
    // Compares the array path on all 2^32 fp32 inputs: for deterministic modes and formats of up to
    // 19 bits with the steps of the oracles (steps.h), else with the rule.
    bool exhaustive = false;
    bool exhaustive_oracle = false;  // with `exhaustive`: also compares the rule with MPFR on all
                                     // inputs
    int threads = 2;
    std::uint64_t seed = 1;  // for the random inputs and the random words
    // The number of random inputs for formats of more than full_storage_bits bits (cases.h); for
    // other formats, a hundredth of this number.
    std::size_t random_cases = 1'000'000;
    // The slower oracle, RationalOracle, computes one case out of `rational_stride`; MPFR computes
    // all cases.
    std::size_t rational_stride = 1;
    // Compares only one case out of `thinning`, except near zero, the smallest normal and the
    // largest value. (In fp64, formats of more than 12 bits whose values are fp32 numbers have
    // fewer cases anyway, because all their cases are compared in fp32.)
    std::size_t thinning = 1;
};

struct Mismatch {
    std::string what;  // "the rule against MPFR", "the array path against the rule", ...
    Projection projection{};
    bool fp64 = false;            // the bits below are those of fp64 numbers, else of fp32 numbers
    bool input_is_code = false;   // `input` is a code, for comparisons of encode() and decode()
                                  // without a rounding
    std::uint64_t input = 0;      // bits of the input, or the code
    std::uint64_t expected = 0;   // bits
    std::uint64_t got = 0;        // bits
    std::uint64_t random = 0;     // the random word; stochastic rounding only
    double lower = 0, upper = 0;  // the magnitudes of the format between which the input lies
};

struct VerifyResult {
    std::uint64_t cases = 0;  // comparisons made
    std::uint64_t mismatches = 0;
    std::optional<Mismatch> first;  // does not depend on the number of threads
    bool stopped = false;           // `progress` returned false; the counts are incomplete
};

// Receives the numbers of finished and of all cases. It is called at intervals, on the thread that
// called verify(); returning false stops the work.
using Progress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

VerifyResult verify(const FloatFormat& format, const Projection& projection,
                    const VerifyOptions& options = {}, const Progress& progress = {});

// Describes a mismatch in one line: input, expected result, actual result, the two neighbours.
std::string describe(const Mismatch& mismatch);
// A number as text, such as 0x3F800000 (1): its bits and its value, with as many digits as its type
// needs.
std::string show_number(std::uint64_t bits, bool fp64);

}  // namespace apscope::detail::oracle
