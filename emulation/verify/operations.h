// Proves one arithmetic operation in one format on this machine: arithmetic() against MPFR, which
// computes the exact result cut off towards zero and says whether something was cut off, and the
// MPFR oracle, which projects that.
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
    bool exhaustive = false;  // fma: all operands of formats of up to 6 bits, not 4
    int threads = 2;
    // Operands drawn at random: codes alike, near cancellation, near ties, beside the format's
    // ends, and numbers that the format does not hold.
    std::size_t samples = 100'000;
    std::uint64_t seed = 1;  // of the samples and of stochastic rounding
    // What is verified in place of arithmetic() on fp32 numbers: something with an error to be
    // found.
    std::function<void(Operation, std::span<const float>, std::span<const float>,
                       std::span<const float>, std::span<float>, const FloatFormat&,
                       const Projection&, std::uint64_t, int)>
        instead = {};
};

// What an operation should give: MPFR's exact result, cut off, and its projection.
template <class Real>
class OperationOracle {
public:
    OperationOracle(const FloatFormat& format, Operation operation, const Projection& projection);
    ~OperationOracle();
    OperationOracle(const OperationOracle&) = delete;
    OperationOracle& operator=(const OperationOracle&) = delete;

    // `random` as in MpfrOracle; operands that the operation does not take may be any.
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
    bool fp64 = false;                        // of what numbers the bits below are
    std::array<std::uint64_t, 3> operands{};  // bits
    std::uint64_t expected = 0, got = 0;      // bits
    std::uint64_t random = 0;                 // the random word, stochastic rounding only
};

struct OperationResult {
    std::uint64_t cases = 0;
    std::uint64_t mismatches = 0;
    std::optional<OperationMismatch> first;  // the same whatever the number of threads
    bool stopped = false;                    // `progress` said so; the counts are those so far
};

// All operands: of roots in formats of up to 19 bits, of sums, products and quotients up to 8 bits,
// of fma up to 4 bits. Beyond that the boundary operands crossed with each other. Then the samples.
// std::invalid_argument where arithmetic() refuses the format or the projection.
OperationResult verify_operation(const FloatFormat& format, Operation operation,
                                 const Projection& projection, const OperationOptions& options = {},
                                 const Progress& progress = {});

// One line: operands, expected, got.
std::string describe(const OperationMismatch& mismatch);

}  // namespace apscope::detail::oracle
