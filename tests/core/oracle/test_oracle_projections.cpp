// The oracles compared with results computed by hand from the definitions: the roundings, overflow
// and underflow rules that are not IEEE 754's, payloads of NaNs, and formats beyond fp32.
#ifdef APSCOPE_HAS_ORACLE

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "core/named_formats.h"
#include "core/oracle/mpfr_oracle.h"
#include "core/oracle/rational_oracle.h"
#include "emulation/verify/tally.h"

namespace apscope::detail {
namespace {

using oracle::bits_of;
using oracle::MpfrOracle;
using enum RoundingMode;
using enum Underflow;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr Overflow ieee = Overflow::ieee, saturate = Overflow::saturate,
                   propagate = Overflow::propagate;

// Both oracles give `expected` bit for bit.
template <class Real>
void expect_projected(const char* format, const Projection& p, Real x, Real expected,
                      std::uint64_t random = 0) {
    const FloatFormat f = parse_format(format);
    const Real first = MpfrOracle(f, p).project(x, random),
               second = oracle::BasicRationalOracle<Real>(f, p).project(x, random);
    const auto words = [&] {
        return std::string(format) + " " + std::string(to_string(p.rounding)) + " " +
               std::string(to_string(p.overflow)) + " " + std::string(to_string(p.underflow)) +
               " of " + oracle::show_number(bits_of(x), sizeof(Real) == 8);
    };
    EXPECT_EQ(bits_of(first), bits_of(expected))
        << "MPFR: " << words() << " is " << first << ", not " << expected;
    EXPECT_EQ(bits_of(second), bits_of(expected))
        << "rational: " << words() << " is " << second << ", not " << expected;
}

struct Row {
    const char* format;
    RoundingMode rounding;
    Overflow overflow;
    float input, expected;
};
const Row deterministic[] = {
    {"e4m3", ties_to_even, ieee, 0x1.000002p-10f, 0x1p-9f},  // sticky bit below the subnormal tie
    {"e4m3", ties_to_even, ieee, 0x1p-10f, 0.0f},
    {"e4m3", ties_to_away, ieee, 0x1p-10f, 0x1p-9f},
    {"e4m3", ties_to_even, ieee, 247.99f, 240.0f},
    {"e4m3", ties_to_even, ieee, 248.0f, inf},
    {"e4m3", ties_to_even, saturate, 248.0f, 240.0f},
    {"e4m3", ties_to_even, Overflow::nan, 248.0f, nan},
    {"e4m3", toward_zero, ieee, 1e30f, 240.0f},
    {"e4m3", toward_zero, Overflow::infinity, 1e30f, inf},
    {"e4m3", to_odd, ieee, 255.0f, 240.0f},
    {"e4m3", toward_negative, ieee, 255.0f, 240.0f},
    {"e4m3", toward_negative, ieee, -255.0f, -inf},
    {"e4m3", toward_positive, ieee, -255.0f, -240.0f},
    {"e4m3", toward_zero, ieee, inf, inf},
    {"e4m3", ties_to_even, saturate, -inf, -240.0f},
    {"e4m3", toward_positive, ieee, -1e-40f, -0.0f},
    {"e4m3fn", ties_to_even, ieee, 464.0f, 448.0f},
    {"e4m3fn", ties_to_even, ieee, 464.00003f, nan},
    {"e4m3fn", ties_to_away, ieee, 464.0f, nan},
    {"e4m3fn", toward_zero, ieee, 1e9f, 448.0f},
    {"e4m3fn", ties_to_even, ieee, inf, nan},
    {"e4m3fn", ties_to_even, saturate, inf, 448.0f},
    {"e2m1fn", ties_to_even, ieee, inf, 6.0f},
    {"e2m1fn", ties_to_even, ieee, -100.0f, -6.0f},
    {"e2m1fn", ties_to_even, ieee, 0.25f, 0.0f},
    {"e2m1fn", ties_to_even, ieee, 0.75f, 1.0f},
    {"e2m1fn", ties_to_even, ieee, 2.5f, 2.0f},
    {"e2m1fn", to_odd, ieee, 2.5f, 3.0f},
    {"e4m3fnuz", ties_to_even, ieee, -1e-40f, 0.0f},
    {"e4m3fnuz", ties_to_even, ieee, inf, nan},
    {"e3m0", ties_to_even, ieee, 1.5f, 2.0f},  // one digit: a tie goes to the larger magnitude
    {"e3m0", ties_to_even, ieee, 0.125f, 0.0f},
    {"e3m0", ties_to_even, ieee, 12.0f, inf},
    {"e3m0", ties_to_even, ieee, 11.999f, 8.0f},
    {"e3m0", to_odd, ieee, 1.9f, 1.0f},
    {"e3m0", to_odd, ieee, 0.1f, 0.25f},
    {"binary8p1uf", ties_to_even, ieee, 1.5f, 1.0f},  // P3109: to the even code; that of 1 is 0x80
    {"binary8p1uf", ties_to_even, ieee, 3.0f, 4.0f},
    {"binary8p1uf", to_odd, ieee, 1.1f, 2.0f},
    {"binary8p1uf", ties_to_even, ieee, -1.0f, nan},
    {"binary8p1uf", toward_zero, ieee, -1.0f, 0.0f},
    {"binary8p1uf", toward_zero, ieee, -inf, nan},
    {"binary8p1uf", ties_to_even, saturate, -1.0f, 0.0f},
    {"binary8p1uf", ties_to_even, ieee, -0x1p-130f, 0.0f},
    {"binary8p1uf", toward_negative, ieee, -0x1p-130f, nan},
    {"e8m0fnu", ties_to_even, ieee, 0.0f, nan},  // no zero
    {"e8m0fnu", ties_to_even, saturate, -0.0f, 0x1p-127f},
    {"e8m0fnu", ties_to_even, ieee, -0x1p-149f, nan},
    {"e8m0fnu", toward_positive, ieee, -0x1p-149f, 0x1p-127f},
    {"e3m0sub-3", ties_to_even, ieee, 0x1.00002p-3f, 0x1p-2f},
    {"e8m0fnu", ties_to_even, ieee, 0x1p-149f, 0x1p-127f},
    {"e8m0fnu", ties_to_even, ieee, 1.5f, 2.0f},
    {"e8m0fnu", toward_zero, ieee, -3.0f, 0x1p-127f},
    {"e8m0fnu", ties_to_even, ieee, 0x1.8p127f, nan},
    {"hfp8_forward", ties_to_even, ieee, 0x1.2p-12f, 0.0f},  // half the smallest value, 1.125 2^-11
    {"hfp8_forward", ties_to_even, ieee, 0x1.200002p-12f, 0x1.2p-11f},
    {"hfp8_forward", ties_to_away, ieee, 0x1.2p-12f, 0x1.2p-11f},
    {"hfp8_forward", ties_to_even, ieee, 0x1p-11f, 0x1.2p-11f},  // 2^emin itself is missing
    {"hfp8_forward", to_odd, ieee, 1e-30f, 0x1.2p-11f},
    {"hfp8_forward", toward_positive, ieee, -0x1p-11f, -0.0f},
    {"e4m3finiteb7sub-7", ties_to_even, ieee, 0x1.78p-7f,
     0x1p-6f},  // 7 2^-10 and 2^-6, tie at 11.5
    {"e4m3finiteb7sub-7", ties_to_even, ieee, 0x1.6p-7f, 0x1.cp-8f},
    {"e4m3finiteb7sub-7", ties_to_even, ieee, 0x1.7p-7f, 0x1p-6f},  // the tie: to the even code
    {"e4m3finiteb7sub-7", to_odd, ieee, 0x1.8p-7f, 0x1.cp-8f},
    {"bf16", ties_to_even, ieee, -1e-40f, -0x1p-133f},
    {"tf32", ties_to_even, ieee, -1e-40f, -0x1.2p-133f},
    {"bf16", ties_to_even, ieee, 0x1.ffp127f, inf},
    {"bf16", toward_zero, ieee, 0x1.fffffep127f, 0x1.fep127f},
    {"fp32", ties_to_even, ieee, 0x1.000002p0f, 0x1.000002p0f},
    {"e4m3", ties_to_zero, ieee, 1.0625f, 1.0f},
    {"e4m3", ties_to_zero, ieee, 0x1.100002p0f, 1.125f},
    {"e4m3", ties_to_zero, ieee, -1.1875f, -1.125f},  // the odd neighbour, nearer to zero
    {"e4m3", ties_to_zero, ieee, 0x1p-10f, 0.0f},
    {"e4m3", ties_to_zero, ieee, 0x1.000002p-10f, 0x1p-9f},
    {"e4m3", ties_to_zero, ieee, 248.0f, 240.0f},
    {"e4m3", ties_to_zero, ieee, 0x1.f00002p7f, inf},
    {"e3m0", ties_to_zero, ieee, 1.5f, 1.0f},
    {"hfp8_forward", ties_to_zero, ieee, 0x1.2p-12f, 0.0f},  // half the smallest value
    {"e4m3finiteb7sub-7", ties_to_zero, ieee, 0x1.7p-7f, 0x1.cp-8f},
    {"e4m3", away_from_zero, ieee, 1.0f, 1.0f},
    {"e4m3", away_from_zero, ieee, 0x1.000002p0f, 1.125f},
    {"e4m3", away_from_zero, ieee, -0x1.000002p0f, -1.125f},
    {"e4m3", away_from_zero, ieee, -1e-40f, -0x1p-9f},
    {"e4m3", away_from_zero, ieee, -0.0f, -0.0f},
    {"e4m3", away_from_zero, ieee, 0x1.e00002p7f, inf},
    {"e4m3", away_from_zero, saturate, 0x1.e00002p7f, 240.0f},
    {"e4m3fn", away_from_zero, ieee, -449.0f, nan},
    {"e2m1fn", away_from_zero, ieee, 6.5f, 6.0f},
    {"binary8p1uf", away_from_zero, ieee, -1.0f, nan},
    {"hfp8_forward", away_from_zero, ieee, 1e-30f, 0x1.2p-11f},
    // Infinities stay where there are some; finite numbers stop at the largest.
    {"e4m3", ties_to_even, propagate, 1e30f, 240.0f},
    {"e4m3", ties_to_even, propagate, inf, inf},
    {"e4m3", toward_zero, propagate, -inf, -inf},
    {"e4m3", away_from_zero, propagate, -241.0f, -240.0f},
    {"e4m3fn", ties_to_even, propagate, -inf, -448.0f},
    {"e4m3fn", ties_to_even, propagate, nan, nan},
    {"e2m1fn", ties_to_even, propagate, inf, 6.0f},
    {"binary8p4ue", ties_to_even, propagate, inf, inf},
    {"binary8p4ue", ties_to_even, propagate, -inf, 0.0f},
    {"binary8p4ue", away_from_zero, propagate, -3.0f, 0.0f},
    {"e8m0fnu", ties_to_even, propagate, 0.0f, 0x1p-127f},
    {"e8m0fnu", toward_negative, propagate, -1.0f, 0x1p-127f},
    {"e8m0fnu", ties_to_even, propagate, inf, 0x1p127f},
};

TEST(OracleProjections, DeterministicModesAndOverflowRules) {
    for (const Row& row : deterministic) {
        expect_projected(row.format, {row.rounding, row.overflow}, row.input, row.expected);
        if (row.input == row.input) {
            expect_projected(row.format, {row.rounding, row.overflow},
                             static_cast<double>(row.input), static_cast<double>(row.expected));
        }
    }
}

struct StochasticRow {
    const char* format;
    RoundingMode rounding;
    int random_bits;
    float input;
    std::uint64_t random;
    float expected;
};
const StochasticRow drawn[] = {
    {"hfp8_forward", stochastic, 1, 0x1.2p-12f, 0x8000000000000000, 0x1.2p-11f},
    {"hfp8_forward", stochastic, 1, 0x1.2p-12f, 0, 0.0f},
    {"e4m3", stochastic, 2, 1.0625f, 0x4000000000000000, 1.0f},  // half of a step
    {"e4m3", stochastic, 2, 1.0625f, 0x8000000000000000, 1.125f},
    {"e4m3", stochastic, 2, 1.03125f, 0x8000000000000000, 1.0f},  // a quarter
    {"e4m3", stochastic, 2, 1.03125f, 0xC000000000000000, 1.125f},
    {"e4m3", stochastic, 64, 1.0f, 0xFFFFFFFFFFFFFFFF, 1.0f},
    {"e4m3", stochastic, 32, 255.0f, 0x0, 240.0f},
    {"e4m3", stochastic, 32, 255.0f, 0xFFFFFFFF00000000, inf},
    // eta 2^2 is 1/2, 3/2, 5/2, 7/2: A counts 0, 1, 2, 3; B 1, 2, 3, 4; C 0, 2, 2, 4.
    {"e4m3", stochastic, 2, 1 + 1 / 64.f, 0xC000000000000000, 1.0f},
    {"e4m3", stochastic_b, 2, 1 + 1 / 64.f, 0xC000000000000000, 1.125f},
    {"e4m3", stochastic_b, 2, 1 + 1 / 64.f, 0x8000000000000000, 1.0f},
    {"e4m3", stochastic_c, 2, 1 + 1 / 64.f, 0xC000000000000000, 1.0f},
    {"e4m3", stochastic_c, 2, 0x1.040002p0f, 0xC000000000000000, 1.125f},  // just above that tie
    {"e4m3", stochastic, 2, 1 + 3 / 64.f, 0x8000000000000000, 1.0f},
    {"e4m3", stochastic_b, 2, 1 + 3 / 64.f, 0x8000000000000000, 1.125f},
    {"e4m3", stochastic_c, 2, 1 + 3 / 64.f, 0x8000000000000000, 1.125f},
    {"e4m3", stochastic_b, 2, 1 + 5 / 64.f, 0x4000000000000000, 1.125f},
    {"e4m3", stochastic_c, 2, 1 + 5 / 64.f, 0x4000000000000000, 1.0f},
    {"e4m3", stochastic, 2, -1 - 7 / 64.f, 0, -1.0f},
    {"e4m3", stochastic_b, 2, -1 - 7 / 64.f, 0, -1.125f},  // up, whatever is drawn
    {"e4m3", stochastic_c, 2, -1 - 7 / 64.f, 0, -1.125f},
    {"e4m3", stochastic_b, 2, 1.0f, 0xC000000000000000, 1.0f},
    {"e4m3", stochastic_equal, 2, 0x1.000002p0f, 0x8000000000000000, 1.125f},
    {"e4m3", stochastic_equal, 2, 0x1.1ffffep0f, 0x4000000000000000, 1.0f},
    {"e4m3", stochastic_equal, 2, 1.0f, 0xC000000000000000, 1.0f},
    {"e4m3", stochastic_equal, 64, 0x1.000002p0f, 0x8000000000000000, 1.125f},
    {"e4m3", stochastic_equal, 64, 0x1.000002p0f, 0x7FFFFFFFFFFFFFFF, 1.0f},
    {"e4m3", stochastic_exact, 32, 1.0625f, 0x7FFFFFFFFFFFFFFF, 1.125f},  // eta = 1/2
    {"e4m3", stochastic_exact, 32, 1.0625f, 0x8000000000000000, 1.0f},
    {"e4m3", stochastic_exact, 32, 0x1.000002p0f, 0x00000FFFFFFFFFFF, 1.125f},  // eta = 2^-20
    {"e4m3", stochastic_exact, 32, 0x1.000002p0f, 0x0000100000000000, 1.0f},
    {"e4m3", stochastic_exact, 32, 1.0f, 0, 1.0f},
    {"e4m3", stochastic_exact, 32, 0x1p-149f, 0, 0x1p-9f},  // eta = 2^-140 > U = 0
    {"e4m3", stochastic_exact, 32, 0x1p-149f, 1, 0.0f},
    {"e4m3", stochastic_exact, 32, 255.0f, 0, inf},
    // From 0 to 1.125 2^-11, eta = 4/9: 2 eta = 8/9, and 4/9 of 2^64 is 0x71C71C71C71C71C7.1C...
    {"hfp8_forward", stochastic, 1, 0x1p-12f, 0x8000000000000000, 0.0f},
    {"hfp8_forward", stochastic_b, 1, 0x1p-12f, 0x8000000000000000, 0x1.2p-11f},
    {"hfp8_forward", stochastic_c, 1, 0x1p-12f, 0x8000000000000000, 0x1.2p-11f},
    {"hfp8_forward", stochastic_c, 1, 0x1p-12f, 0, 0.0f},
    {"hfp8_forward", stochastic_exact, 1, 0x1p-12f, 0x71C71C71C71C71C7, 0x1.2p-11f},
    {"hfp8_forward", stochastic_exact, 1, 0x1p-12f, 0x71C71C71C71C71C8, 0.0f},
};

TEST(OracleProjections, StochasticModesDecideByTheirCounts) {
    for (const StochasticRow& row : drawn) {
        expect_projected(row.format, {row.rounding, ieee, row.random_bits}, row.input, row.expected,
                         row.random);
    }
}

struct UnderflowRow {
    const char* format;
    RoundingMode rounding;
    float input;
    float gradual, flush_result, flush_input;  // flush_both is flush_input for casts
    Overflow overflow = ieee;
};
// The smallest normal number of e4m3 is 2^-6.
const UnderflowRow underflows[] = {
    {"e4m3", ties_to_even, 0x1p-7f, 0x1p-7f, 0.0f, 0.0f},
    {"e4m3", ties_to_even, -0x1p-7f, -0x1p-7f, -0.0f, -0.0f},
    {"e4m3", ties_to_even, 0x1.fp-7f, 0x1p-6f, 0x1p-6f, 0.0f},  // rounds to a normal number
    {"e4m3", ties_to_zero, 0x1.ep-7f, 0x1.cp-7f, 0.0f, 0.0f},
    {"e4m3", ties_to_even, -0x1p-6f, -0x1p-6f, -0x1p-6f, -0x1p-6f},
    {"e4m3", away_from_zero, 1e-30f, 0x1p-9f, 0.0f, 0.0f},
    {"e4m3", toward_negative, -1e-30f, -0x1p-9f, -0.0f, -0.0f},
    {"e4m3", to_odd, 0x1.ffp-7f, 0x1.cp-7f, 0.0f, 0.0f},
    {"e4m3", ties_to_even, inf, inf, inf, inf},
    {"e4m3fnuz", ties_to_even, -0x1p-8f, -0x1p-8f, 0.0f, 0.0f},  // smallest normal 2^-7, one zero
    {"hfp8_forward", ties_to_even, 0x1p-11f, 0x1.2p-11f, 0x1.2p-11f,
     0.0f},  // 1.125 2^-11 is normal
    {"hfp8_forward", ties_to_even, -0x1.2p-11f, -0x1.2p-11f, -0x1.2p-11f, -0x1.2p-11f},
    {"e8m0fnu", ties_to_even, 0x1p-140f, 0x1p-127f, 0x1p-127f,
     nan},  // a flushed input is a zero like others
    {"e8m0fnu", ties_to_even, 0x1p-140f, 0x1p-127f, 0x1p-127f, 0x1p-127f, saturate},
    {"e8m0fnu", ties_to_even, -0x1p-140f, nan, nan, nan},
    {"binary8p4uf", toward_negative, -0x1p-17f, nan, 0.0f, 0.0f},  // smallest normal 2^-15
    {"binary8p4uf", toward_negative, -0x1p-15f, nan, nan, nan},
};

TEST(OracleProjections, UnderflowRules) {
    for (const UnderflowRow& row : underflows) {
        const auto expect = [&](Underflow underflow, float expected) {
            expect_projected(row.format, {row.rounding, row.overflow, 32, underflow}, row.input,
                             expected);
        };
        expect(gradual, row.gradual);
        expect(flush_result, row.flush_result);
        expect(flush_input, row.flush_input);
        expect(flush_both, row.flush_input);
    }
}

template <class Bits>
struct PayloadRow {
    const char* format;
    Bits input, expected;
};
const PayloadRow<std::uint32_t> payloads[] = {
    {"e5m2", 0x7F812345, 0x7FC00000},  // 2 bits of the fraction, 00, the first of them set
    {"e5m2", 0xFFA00000, 0xFFE00000},  // 01
    {"e5m2", 0xFF800001, 0xFFC00000},        {"fp16", 0x7F923456, 0x7FD22000},  // 10 bits, 0x91
    {"fp16", 0xFFFFFFFF, 0xFFFFE000},        {"fp32", 0xFF812345, 0xFFC12345},
    {"e4m3fn", 0xFFA00000, 0xFFC00000},  // one code of either sign: the sign alone
    {"e4m3fn", 0x7F812345, 0x7FC00000},      {"e4m3fnuz", 0xFFA00000, 0x7FC00000},  // one code
    {"binary8p3se", 0xFFA00000, 0x7FC00000}, {"e2m1fn", 0xFFA00000, 0x7FC00000},    // none
    {"e8m0fnu", 0xFFA00000, 0x7FC00000},     {"e5m2u", 0xFFA00000, 0x7FC00000},
};
const PayloadRow<std::uint64_t> long_payloads[] = {
    {"fp64", 0xFFF0000000000001, 0xFFF8000000000001},
    {"fp16", 0x7FF123456789ABCD, 0x7FF9200000000000},  // 10 bits, 0x48
    {"e4m3fn", 0xFFFFFFFFFFFFFFFF, 0xFFF8000000000000},
};

TEST(OracleProjections, PayloadsAreKeptAsFarAsTheFormatHasCodes) {
    Projection keep;
    keep.keep_payload = true;
    for (const auto& row : payloads) {
        expect_projected(row.format, keep, std::bit_cast<float>(row.input),
                         std::bit_cast<float>(row.expected));
        expect_projected(row.format, {}, std::bit_cast<float>(row.input),
                         std::bit_cast<float>(0x7FC00000u));
    }
    for (const auto& row : long_payloads) {
        expect_projected(row.format, keep, std::bit_cast<double>(row.input),
                         std::bit_cast<double>(row.expected));
        expect_projected(row.format, {}, std::bit_cast<double>(row.input),
                         std::bit_cast<double>(std::uint64_t{0x7FF8000000000000}));
    }
    // A NaN that does not come from an input has no payload and no sign.
    expect_projected("e4m3fn", keep, -1e9f, std::bit_cast<float>(0x7FC00000u));
}

struct LongRow {
    const char* format;
    RoundingMode rounding;
    double input, expected;
};
const LongRow beyond_fp32[] = {
    {"fp64", ties_to_even, 0x1.123456789abcdp-1022, 0x1.123456789abcdp-1022},
    {"fp64", away_from_zero, -0x1p-1074, -0x1p-1074},
    {"e4m3", ties_to_even, 0x1.1000000000001p0, 1.125},  // above the tie by less than fp32 holds
    {"e4m3", ties_to_even, 0x1.0ffffffffffffp0, 1.0},
    {"e4m3", ties_to_even, 0x1.effffffffffffp7, 240.0},
    {"fp32", ties_to_even, 0x1.0000010000001p0, 0x1.000002p0},
    {"fp32", toward_positive, 0x1p-1074, 0x1p-149},
    {"e11m10", ties_to_even, 0x1.002p0, 1.0},
    {"e11m10", ties_to_even, 0x1.0020000000001p0, 0x1.004p0},
    {"e11m10", ties_to_even, 0x1.ffdfffffffffep1023, 0x1.ffcp1023},
    {"e11m10", ties_to_even, 0x1.ffep1023, std::numeric_limits<double>::infinity()},
    {"e11m10", toward_zero, std::numeric_limits<double>::max(), 0x1.ffcp1023},
    {"e11m10", ties_to_even, 0x1p-1033, 0.0},  // half the smallest value, 2^-1032
    {"e11m10", ties_to_even, 0x1.0000000001p-1033, 0x1p-1032},
    {"e11m10", away_from_zero, 0x1p-1074, 0x1p-1032},
    {"e11m10", ties_to_away, -0x1p-1033, -0x1p-1032},
};

TEST(OracleProjections, Fp64NumbersAndFormatsBeyondFp32) {
    for (const LongRow& row : beyond_fp32)
        expect_projected(row.format, {row.rounding, ieee}, row.input, row.expected);
}

}  // namespace
}  // namespace apscope::detail

#endif
