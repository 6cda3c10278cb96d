// Verifies one arithmetic operation in one format on this machine: compares arithmetic() with MPFR.
// MPFR computes the exact result, truncated towards zero, with a flag for an inexact truncation;
// the MPFR oracle rounds this result to the format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "core/float_format.h"
#include "core/oracle/mpfr_oracle.h"
#include "emulation/arithmetic/arithmetic.h"
#include "emulation/verify/verify.h"

namespace apscope::detail::oracle {

struct OperationOptions {
    // True: tests fma on all operands in formats of up to 6 bits; false: of up to 4 bits.
    bool exhaustive = false;
    int threads = 2;
    // The number of cases with random operands: any codes, operands near cancellation, near ties
    // and near the format's limits, and numbers that are not values of the format.
    std::size_t samples = 100'000;
    std::uint64_t seed = 1;  // for the samples and for stochastic rounding
    // If set, this function is verified on fp32 numbers instead of arithmetic(). Tests pass
    // functions with errors that must be detected.
    std::function<void(Operation, std::span<const float>, std::span<const float>,
                       std::span<const float>, std::span<float>, const FloatFormat&,
                       const Projection&, std::uint64_t, int)>
        instead = {};
};

// Computes the expected result of an operation: MPFR's exact result, truncated and then rounded by
// MpfrOracle.
template <class Real>
class OperationOracle {
public:
    OperationOracle(const FloatFormat& format, Operation operation, const Projection& projection);
    ~OperationOracle();
    OperationOracle(const OperationOracle&) = delete;
    OperationOracle& operator=(const OperationOracle&) = delete;

    // `random` is as for MpfrOracle; operands that the operation does not take are ignored.
    Real result(Real a, Real b, Real c, std::uint64_t random);

private:
    int apply(mpfr_rnd_t direction);
    double input(Real x) const;

    const Operation operation_;
    const Projection projection_;
    const double smallest_normal_;
    MpfrOracle oracle_;
    mpfr_t a_, b_, c_, result_;
};

struct OperationMismatch {
    std::string format;
    Operation operation{};
    Projection projection{};
    bool fp64 = false;  // the bits below are those of fp64 numbers, else of fp32 numbers
    std::array<std::uint64_t, 3> operands{};  // bits
    std::uint64_t expected = 0, got = 0;      // bits
    std::uint64_t random = 0;                 // the random word; stochastic rounding only
};

struct OperationResult {
    std::uint64_t cases = 0;
    std::uint64_t mismatches = 0;
    std::optional<OperationMismatch> first;  // does not depend on the number of threads
    bool stopped = false;                    // `progress` returned false; the counts are incomplete
};

// Verifies all operands for roots in formats of up to 19 bits, for sums, products and quotients in
// formats of up to 8 bits, and for fma in formats of up to 4 bits (6 if
// OperationOptions::exhaustive); in other formats, verifies all combinations of boundary values.
// Then verifies the random samples. Throws std::invalid_argument if arithmetic() refuses the format
// or the projection.
OperationResult verify_operation(const FloatFormat& format, Operation operation,
                                 const Projection& projection, const OperationOptions& options = {},
                                 const Progress& progress = {});

// Describes a mismatch in one line: operands, expected result, actual result.
std::string describe(const OperationMismatch& mismatch);

}  // namespace apscope::detail::oracle
