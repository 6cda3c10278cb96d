// Arithmetic against MPFR: every pair of operands of 8-bit formats, every triple of 4-bit ones,
// every root; quotients and roots to odd against the general path.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "core/named_formats.h"
#include "emulation/arithmetic/arithmetic.h"
#ifdef APSCOPE_HAS_ORACLE
#include "emulation/verify/operations.h"
#endif

using namespace apscope;
using namespace apscope::detail;

#ifdef APSCOPE_HAS_ORACLE
namespace {

// All operands of a format of 8 bits or, of fma, of 4, and samples, in fp32 and in fp64. bits: the
// number of random bits.
void expect_verified(const char* name, Operation operation, RoundingMode mode, int bits,
                     std::size_t samples = 0) {
    if (mode == RoundingMode::stochastic_exact) return;  // refused
    const FloatFormat format = parse_format(name);
    oracle::OperationOptions options;
    options.samples = samples;
    const oracle::OperationResult result =
        oracle::verify_operation(format, operation, {mode, Overflow::ieee, bits}, options);
    const std::uint64_t codes = std::uint64_t{1} << format.storage_bits();
    EXPECT_GE(result.cases, samples != 0                    ? samples
                            : operand_count(operation) == 1 ? codes
                            : operand_count(operation) == 2 ? codes * codes
                                                            : codes * codes * codes);
    EXPECT_EQ(result.mismatches, 0u) << (result.first ? describe(*result.first) : "");
}

constexpr Operation binary_operations[] = {Operation::add, Operation::subtract, Operation::multiply,
                                           Operation::divide};

}  // namespace

// e4m3 in every mode, other formats of 8 bits in every third, so that formats alike share the
// modes; shorter ones, which have the same kinds of special values, in all, with more random bits
// too.
TEST(Arithmetic, EveryPairOfOperands) {
    int place = 0;
    for (const char* name :
         {"e4m3", "e4m3fn", "e5m2", "binary8p3se", "e3m4", "binary8p4se", "e4m3fnuz", "e4m3b3",
          "e4m3finiteb20sub-20", "hfp8_forward", "e4m3fnnosub", "e3m2", "e3m2fn", "e3m2fnuz",
          "binary6p3se", "e3m2nosub", "e3m0", "e2m1fn", "e3m2finiteb9sub-9"}) {
        ++place;
        const bool is_short = parse_format(name).storage_bits() <= 6;
        for (int mode = 0; mode < rounding_mode_count; ++mode) {
            if (!is_short && place != 1 && (mode + place) % 3 != 0) continue;
            for (const Operation operation : binary_operations) {
                expect_verified(name, operation, static_cast<RoundingMode>(mode), 8);
                if (is_short && is_stochastic(static_cast<RoundingMode>(mode)))
                    expect_verified(name, operation, static_cast<RoundingMode>(mode), 60);
            }
        }
    }
}

TEST(Arithmetic, EveryTripleOfFourBitsAndEveryRoot) {
    for (int mode = 0; mode < rounding_mode_count; ++mode) {
        const auto rounding = static_cast<RoundingMode>(mode);
        for (const char* name : {"e2m1fn", "e3m0", "binary4p2sf", "e2m1finiteb2nosub"}) {
            for (const int bits : {8, 60}) expect_verified(name, Operation::fma, rounding, bits);
        }
        for (const char* name : {"e4m3", "e4m3fn", "e5m2", "e3m0", "e2m1fn", "binary8p3se", "fp16"})
            expect_verified(name, Operation::sqrt, rounding, 8);
        expect_verified("e4m3", Operation::fma, rounding, 8, 20'000);
    }
}
#endif

// Roots to odd against the 122 digits of the general path, over fp32 of all magnitudes.
TEST(Arithmetic, OddQuotientsAndRootsAreTheWideOnes) {
    std::mt19937_64 random(4);
    const auto to_fp64 = [](const WideNumber& w) {
        const auto top = static_cast<std::uint64_t>(w.significand >> 64);
        const int leading = top != 0
                                ? 127 - std::countl_zero(top)
                                : 63 - std::countl_zero(static_cast<std::uint64_t>(w.significand));
        const int drop = leading - 52;
        const auto kept = static_cast<std::uint64_t>(w.significand >> drop);
        const bool sticky =
            (w.significand & ((static_cast<unsigned __int128>(1) << drop) - 1)) != 0;
        const double magnitude =
            std::ldexp(static_cast<double>(kept | (sticky ? 1 : 0)), w.unit + drop);
        return w.negative ? -magnitude : magnitude;
    };
    for (int i = 0; i < 300000; ++i) {
        // Short significands too: their quotients and roots are often exact.
        const std::uint32_t mask = i % 3 == 0 ? 0xFFFFFFFF : i % 3 == 1 ? 0xFFFFF000 : 0xFFFC0000;
        const double a = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & mask);
        const double b = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & mask);
        if (!std::isfinite(a) || !std::isfinite(b) || a == 0 || b == 0) continue;
        ASSERT_EQ(divide_to_odd(a, b), to_fp64(divide_wide(a, b))) << a << " / " << b;
        ASSERT_EQ(sqrt_to_odd(std::abs(a)), to_fp64(sqrt_wide(std::abs(a)))) << a;
        const WideNumber root = sqrt_wide(std::abs(a));
        const auto head =
            static_cast<std::uint64_t>(root.significand >> 68);  // 54 bits or so: floor of the root
        const double scaled = std::ldexp(std::abs(a), -2 * (root.unit + 68));
        const auto square =
            static_cast<unsigned __int128>(scaled);  // exact: an integer of at most 110 bits
        ASSERT_TRUE(static_cast<unsigned __int128>(head) * head <= square &&
                    square < static_cast<unsigned __int128>(head + 1) * (head + 1))
            << a;
    }
}

TEST(Arithmetic, OperandsAndOutputsMustAgree) {
    const std::vector<float> two(2), three(3), one(1, 2.0f);
    std::vector<float> out(3);
    const FloatFormat f = parse_format("e4m3");
    EXPECT_THROW(arithmetic(Operation::add, two, three, {}, out, f, {}), std::invalid_argument);
    EXPECT_THROW(parse_operation("modulo"), std::invalid_argument);
    EXPECT_THROW(make_rounder(f, {RoundingMode::stochastic_exact}), std::invalid_argument);
    EXPECT_THROW(arithmetic(Operation::add, three, one, {}, out, parse_format("fp64"), {}),
                 std::invalid_argument);
    arithmetic(Operation::multiply, three, one, {}, out, f, {});
    EXPECT_EQ(out, (std::vector<float>{0, 0, 0}));
}
