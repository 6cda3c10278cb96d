// Proves one format with one projection on this machine: the rounding rule against both oracles,
// the array path against the rule, encode and decode against the oracle's reading of the codes. In
// fp32 where it holds the format's values, and in fp64.
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
    // The array path on all 2^32 fp32 inputs. Deterministic modes, formats of up to 19 bits:
    // against the steps that the oracles find (steps.h). Else against the rule.
    bool exhaustive = false;
    bool exhaustive_oracle = false;  // and the rule against MPFR on each of them
    int threads = 2;
    std::uint64_t seed = 1;  // of the random inputs and the random words
    // Random inputs for formats wider than cases.h covers in full; narrower ones get a hundredth.
    std::size_t random_cases = 1'000'000;
    // The slower, rational oracle sees every so-many-th case; MPFR sees them all.
    std::size_t rational_stride = 1;
    // Away from the edges near zero and near the largest value, every so-many-th case only. (In
    // fp64, for formats of more than 12 bits that fp32 holds, fewer in any case: these have had all
    // of them in fp32.)
    std::size_t thinning = 1;
};

struct Mismatch {
    std::string what;  // "the rule against MPFR", "the array path against the rule", ...
    Projection projection{};
    bool fp64 = false;            // of what numbers the bits below are
    bool input_is_code = false;   // encode and decode: no rounding is involved
    std::uint64_t input = 0;      // bits of the input, or the code
    std::uint64_t expected = 0;   // bits
    std::uint64_t got = 0;        // bits
    std::uint64_t random = 0;     // the random word, stochastic rounding only
    double lower = 0, upper = 0;  // the magnitudes of the format between which the input lies
};

struct VerifyResult {
    std::uint64_t cases = 0;  // comparisons made
    std::uint64_t mismatches = 0;
    std::optional<Mismatch> first;  // the same whatever the number of threads
    bool stopped = false;           // `progress` said so; the counts are those so far
};

// Called from the calling thread every now and then; false stops the work.
using Progress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

VerifyResult verify(const FloatFormat& format, const Projection& projection,
                    const VerifyOptions& options = {}, const Progress& progress = {});

// One line: input, expected, got, the two neighbours.
std::string describe(const Mismatch& mismatch);
// 0x3F800000 (1), with as many digits as the number type needs.
std::string show_number(std::uint64_t bits, bool fp64);

}  // namespace apscope::detail::oracle
