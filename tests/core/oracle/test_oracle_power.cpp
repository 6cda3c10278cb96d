// The oracle tests can fail: the chosen inputs and random words distinguish every two rules, and an
// error put into an operation is found and described.
#ifdef APSCOPE_HAS_ORACLE

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/named_formats.h"
#include "core/oracle/cases.h"
#include "core/oracle/mpfr_oracle.h"
#include "emulation/verify/operations.h"
#include "emulation/verify/tally.h"

namespace apscope::detail {
namespace {

using oracle::bits_of;
using oracle::MpfrOracle;
using oracle::OperationOptions;
using oracle::OperationResult;

// The results of the cases, with every random integer of two bits if one is drawn.
template <class Real>
std::vector<oracle::BitsOfReal<Real>> results(const char* format, const Projection& p) {
    const FloatFormat f = parse_format(format);
    MpfrOracle mpfr(f, p);
    std::vector<oracle::BitsOfReal<Real>> result;
    for (const Real x : oracle::cases<Real>(f, 100, 1)) {
        for (std::uint64_t word = 0; word < 4; ++word)
            result.push_back(bits_of(mpfr.project(x, word << 62)));
    }
    return result;
}

TEST(OraclePower, TheCasesTellEveryTwoRoundingsApart) {
    const auto expect_all_different = []<class Real>(Real, const char* format) {
        std::vector<std::vector<oracle::BitsOfReal<Real>>> all;
        for (int i = 0; i < rounding_mode_count; ++i) {
            const auto mode = static_cast<RoundingMode>(i);
            all.push_back(results<Real>(format, {mode, Overflow::ieee, 2}));
            for (int k = 0; k < i; ++k)
                EXPECT_NE(all[i], all[k])
                    << to_string(mode) << ' ' << to_string(static_cast<RoundingMode>(k));
        }
    };
    expect_all_different(1.0f, "e4m3");
    expect_all_different(1.0, "e11m0");
}

TEST(OraclePower, TheCasesTellEveryTwoOverflowAndUnderflowRulesApart) {
    for (int i = 0; i < overflow_count; ++i) {
        for (int k = 0; k < i; ++k) {
            Projection one, other;
            one.rounding = other.rounding = RoundingMode::toward_positive;
            one.overflow = static_cast<Overflow>(i);
            other.overflow = static_cast<Overflow>(k);
            EXPECT_NE(results<float>("e4m3", one), results<float>("e4m3", other))
                << to_string(one.overflow) << ' ' << to_string(other.overflow);
        }
    }
    for (int i = 0; i < underflow_count - 1; ++i) {  // flush_both is flush_input for casts
        for (int k = 0; k < i; ++k) {
            Projection one, other;
            one.underflow = static_cast<Underflow>(i);
            other.underflow = static_cast<Underflow>(k);
            EXPECT_NE(results<double>("fp16", one), results<double>("fp16", other))
                << to_string(one.underflow) << ' ' << to_string(other.underflow);
        }
    }
    Projection keep;
    keep.keep_payload = true;
    EXPECT_NE(results<float>("fp16", keep), results<float>("fp16", {}));
    EXPECT_NE(results<float>("e4m3fn", keep), results<float>("e4m3fn", {}));  // the sign alone
}

// Verifies the projection `asked` against an arithmetic() that applies the projection `done`.
OperationResult with_rounding(Operation operation, const char* format, const Projection& asked,
                              const Projection& done, std::size_t samples) {
    OperationOptions options;
    options.samples = samples;
    options.threads = 1;
    options.instead = [&](Operation op, auto a, auto b, auto c, std::span<float> out,
                          const FloatFormat& f, const Projection&, std::uint64_t seed,
                          int threads) { arithmetic(op, a, b, c, out, f, done, seed, threads); };
    return oracle::verify_operation(parse_format(format), operation, asked, options);
}

TEST(OraclePower, AnOperationRoundedOtherwiseIsFound) {
    using enum RoundingMode;
    for (const Operation operation : {Operation::add, Operation::subtract, Operation::multiply,
                                      Operation::divide, Operation::sqrt, Operation::fma}) {
        for (const char* format : {"e4m3", "fp16", "fp32"}) {
            EXPECT_EQ(with_rounding(operation, format, {}, {}, 5000).mismatches, 0u);
            for (const auto& [asked, done] : {std::pair{ties_to_even, toward_zero},
                                              {toward_positive, away_from_zero},
                                              {to_odd, ties_to_even},
                                              {toward_negative, toward_zero}}) {
                const bool same_for_roots =
                    asked == toward_positive || asked == toward_negative;  // none is negative
                if (operation == Operation::sqrt && same_for_roots) continue;
                EXPECT_GT(with_rounding(operation, format, {asked}, {done}, 20000).mismatches, 0u)
                    << to_string(operation) << ' ' << format << ' ' << to_string(asked) << ' '
                    << to_string(done);
            }
        }
        EXPECT_GT(with_rounding(operation, "e4m3", {ties_to_even},
                                {ties_to_even, Overflow::ieee, 32, Underflow::flush_input}, 5000)
                      .mismatches,
                  0u);
    }
    // Ties between exact sums and products; counts that differ by one in 2^32.
    for (const Operation operation : {Operation::add, Operation::multiply, Operation::fma}) {
        EXPECT_GT(
            with_rounding(operation, "fp16", {ties_to_even}, {ties_to_away}, 20000).mismatches, 0u);
        EXPECT_GT(
            with_rounding(operation, "fp16", {ties_to_zero}, {ties_to_even}, 20000).mismatches, 0u);
    }
    for (const Operation operation : {Operation::add, Operation::subtract, Operation::fma}) {
        for (const RoundingMode done : {stochastic, stochastic_c}) {
            EXPECT_GT(with_rounding(operation, "fp16", {stochastic_b}, {done}, 100'000).mismatches,
                      0u)
                << to_string(operation);
        }
    }
}

TEST(OraclePower, OneWrongResultIsFoundAndNamed) {
    OperationOptions options;
    options.samples = 0;
    options.instead = [](Operation op, auto a, auto b, auto c, std::span<float> out,
                         const FloatFormat& f, const Projection& p, std::uint64_t seed,
                         int threads) {
        arithmetic(op, a, b, c, out, f, p, seed, threads);
        for (std::size_t i = 0; i < out.size(); ++i) {
            if (a[i] == 1.5f && b[i] == -0.0f && std::signbit(b[i])) out[i] = 1.625f;
        }
    };
    const OperationResult result =
        oracle::verify_operation(parse_format("e4m3"), Operation::add, {}, options);
    EXPECT_EQ(result.mismatches, 1u);
    ASSERT_TRUE(result.first);
    EXPECT_EQ(
        oracle::describe(*result.first),
        "add in e4m3, ties_to_even, overflow ieee: operands 0x3FC00000 (1.5), 0x80000000 (-0), "
        "expected 0x3FC00000 (1.5), got 0x3FD00000 (1.625)");
}

// Results computed by hand from IEEE 754.
TEST(OracleOperation, SpecialOperandsAndZeros) {
    const float inf = std::numeric_limits<float>::infinity(),
                nan = std::numeric_limits<float>::quiet_NaN();
    const auto expect = [](Operation operation, const Projection& p, float a, float b, float c,
                           float expected, const char* format = "e4m3") {
        oracle::OperationOracle<float> oracle(parse_format(format), operation, p);
        EXPECT_EQ(bits_of(oracle.result(a, b, c, 0)), bits_of(expected))
            << to_string(operation) << ' ' << a << ' ' << b << ' ' << c;
        oracle::OperationOracle<double> wide(parse_format(format), operation, p);
        EXPECT_EQ(bits_of(wide.result(a, b, c, 0)), bits_of(static_cast<double>(expected)));
    };
    using enum Operation;
    constexpr RoundingMode down = RoundingMode::toward_negative;
    expect(add, {}, inf, -inf, 0, nan);
    expect(add, {}, 1, -1, 0, 0.0f);
    expect(add, {down}, 1, -1, 0, -0.0f);
    expect(add, {down}, 0, 0, 0, 0.0f);
    expect(add, {down}, 0.0f, -0.0f, 0, -0.0f);
    expect(add, {down}, 1, -1, 0, 0.0f, "e4m3fnuz");
    expect(subtract, {down}, 2, 2, 0, -0.0f);
    expect(multiply, {}, 0, inf, 0, nan);
    expect(multiply, {}, -3, 0, 0, -0.0f);
    expect(multiply, {}, 0x1p-6f, -0x1p-6f, 0, -0.0f);
    expect(multiply, {down}, 0x1p-6f, -0x1p-6f, 0, -0x1p-9f);
    expect(divide, {}, -1, 0, 0, -inf);
    expect(divide, {}, 1, 0, 0, nan, "e4m3fn");
    expect(divide, {RoundingMode::ties_to_even, Overflow::saturate}, 1, 0, 0, 240.0f);
    expect(divide, {}, 0, 0, 0, nan);
    expect(divide, {}, 1, 3, 0, 0.34375f);  // 1/3 between 0.3125 and 0.34375
    expect(sqrt, {}, -0.0f, 0, 0, -0.0f);
    expect(sqrt, {}, -1, 0, 0, nan);
    expect(sqrt, {}, 2, 0, 0, 1.375f);
    expect(fma, {down}, 1, 1, -1, -0.0f);
    expect(fma, {}, 0, inf, 1, nan);
    expect(fma, {}, 1.0625f, 1, 0x1p-60f, 1.125f);  // above a tie by 2^-60
    expect(fma, {}, 1.0625f, 1, -0x1p-60f, 1.0f);
    const Projection flush{RoundingMode::ties_to_even, Overflow::ieee, 32, Underflow::flush_input};
    expect(multiply, flush, 8, -0x1p-9f, 0, -0.0f);
    expect(divide, flush, 0x1p-9f, 0, 0, nan);
    expect(add, flush, 0x1p-6f, -0x1.2p-6f, 0, -0x1p-9f);  // results stay subnormal
}

}  // namespace
}  // namespace apscope::detail

#endif
