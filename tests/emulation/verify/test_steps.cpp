// The staircase of a cast compared with a direct evaluation; a wrong step is detected; operations
// compared with MPFR and with results computed by hand.
#ifdef APSCOPE_HAS_ORACLE
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <stdexcept>

#include "core/named_formats.h"
#include "core/oracle/mpfr_oracle.h"
#include "emulation/verify/operations.h"
#include "emulation/verify/steps.h"

using namespace apscope;
using namespace apscope::detail;
using namespace apscope::detail::oracle;

namespace {

std::uint32_t result_at(const Staircase& steps, std::uint32_t input) {
    std::uint32_t result = 0;
    steps.fill(input, std::span(&result, 1));
    return result;
}

}  // namespace

TEST(Steps, AreWhatMpfrSaysOfRandomInputs) {
    for (const char* name : {"e3m0", "e4m3"}) {
        const FloatFormat format = parse_format(name);
        for (const RoundingMode mode :
             {RoundingMode::ties_to_even, RoundingMode::toward_negative, RoundingMode::to_odd}) {
            const Projection projection{mode};
            const Staircase steps(format, projection, 2);
            MpfrOracle oracle(format, projection);
            std::mt19937 random(3);
            for (int i = 0; i < 170'000; ++i) {  // six times: a million inputs in all
                const auto input = static_cast<std::uint32_t>(random());
                const float expected = oracle.project(std::bit_cast<float>(input), 0);
                ASSERT_EQ(result_at(steps, input), std::bit_cast<std::uint32_t>(expected))
                    << name << " " << to_string(mode) << " of the input bits " << input;
            }
        }
    }
}

TEST(Steps, OfTheSmallestFormatByHand) {
    const Staircase steps(parse_format("e3m0"), {RoundingMode::toward_zero}, 1);
    EXPECT_EQ(result_at(steps, 0x3E7FFFFF), 0u);           // below a quarter, the smallest value
    EXPECT_EQ(result_at(steps, 0x3E800000), 0x3E800000u);  // a quarter
    EXPECT_EQ(result_at(steps, 0x7F7FFFFF), 0x41000000u);  // the largest fp32 number gives 8
    EXPECT_EQ(result_at(steps, 0xFF800000), 0xFF800000u);  // minus infinity
    EXPECT_EQ(result_at(steps, 0xFFFFFFFF), 0x7FC00000u);  // a NaN
}

TEST(Steps, AWrongStepIsFoundAndNamed) {
    // Inputs 0 and 1 have entries of their own; the third is the first step upwards, after the tie
    // at 2^-128: to 2^-127.
    const FloatFormat format = parse_format("e8m1");
    Staircase steps(format, {}, 1);
    ASSERT_EQ(steps.positive[2].first, 0x00200001u);
    bool stopped = false;
    const auto beyond_it = [](std::uint64_t done, std::uint64_t) { return done < 1 << 22; };
    EXPECT_EQ(arrays_against_steps(format, {}, steps, 1, beyond_it, stopped).mismatches, 0u);
    EXPECT_TRUE(stopped);

    steps.positive[2].first += 2;
    const Tally tally = arrays_against_steps(format, {}, steps, 1, beyond_it, stopped);
    EXPECT_GE(tally.mismatches, 2u);
    EXPECT_EQ(tally.first.input, 0x00200001u);
    EXPECT_EQ(tally.first.expected, 0u);
    EXPECT_EQ(tally.first.got, 0x00400000u);
    EXPECT_EQ(tally.first.what, "the array path against the oracle");
}

// Products and sums that fp32 arithmetic followed by a cast would round twice.
TEST(Operations, TheTrapsOfDoubleRounding) {
    const auto apply = [](Operation operation, float a, float b, float c, const char* format,
                          RoundingMode mode) {
        float out = 0;
        arithmetic(operation, std::span(&a, 1), std::span(&b, 1), std::span(&c, 1),
                   std::span(&out, 1), parse_format(format), {mode});
        return out;
    };
    constexpr RoundingMode even = RoundingMode::ties_to_even, up = RoundingMode::toward_positive;
    EXPECT_EQ(apply(Operation::multiply, 0x1.008p-60f, 0x1.7f4p-76f, 0, "tf32", even), 0x1p-136f);
    EXPECT_EQ(apply(Operation::add, 1, 0x1p-60f, 0, "bf16", up), 0x1.02p0f);
    // Above a tie of bf16 by 2^-60, which an fp32 result would lose.
    EXPECT_EQ(apply(Operation::fma, 0x1.01p0f, 1, 0x1p-60f, "bf16", even), 0x1.02p0f);
    EXPECT_EQ(apply(Operation::fma, 0x1.01p0f, 1, -0x1p-60f, "bf16", even), 1.0f);
    EXPECT_EQ(apply(Operation::fma, 0x1.01p0f, 1, 0, "bf16", even), 1.0f);
}
#endif
