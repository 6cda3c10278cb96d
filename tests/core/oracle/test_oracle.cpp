// The oracles are compared with each other (test_oracle_projections.cpp compares them with
// hand-written results), then the rule and the array path with the oracles, for every named format.
#ifdef APSCOPE_HAS_ORACLE

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/named_formats.h"
#include "core/oracle/cases.h"
#include "core/oracle/mpfr_oracle.h"
#include "core/oracle/rational_oracle.h"
#include "emulation/verify/tally.h"
#include "emulation/verify/verify.h"

namespace apscope::detail {
namespace {

using oracle::MpfrOracle;

constexpr float inf = std::numeric_limits<float>::infinity();

std::vector<Overflow> allowed_overflows(const FloatFormat& f) {
    std::vector<Overflow> result = {Overflow::ieee, Overflow::saturate, Overflow::propagate};
    if (f.has_infinity) result.push_back(Overflow::infinity);
    if (f.has_nan()) result.push_back(Overflow::nan);
    return result;
}

std::vector<RoundingMode> all_modes() {
    std::vector<RoundingMode> modes;
    for (int i = 0; i < rounding_mode_count; ++i) modes.push_back(static_cast<RoundingMode>(i));
    return modes;
}

// Equal bits; NaNs are equal.
bool same(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b));
}

using enum RoundingMode;
constexpr Overflow ieee = Overflow::ieee, saturate = Overflow::saturate;

// Every mode and overflow rule, with one of the underflow rules, at a sample of the format's cases.
template <class Real>
void expect_agreement(const FloatFormat& f, std::mt19937_64& random, std::size_t samples) {
    validate(f);
    const std::vector<Real> inputs = oracle::cases<Real>(f, 50, random());
    for (const RoundingMode mode : all_modes()) {
        for (const Overflow overflow : allowed_overflows(f)) {
            const bool rounds_count = mode == stochastic_b || mode == stochastic_c;
            const int max_bits = rounds_count ? 62 : 64,
                      underflows = f.smallest_normal() > 0 ? underflow_count : 1;
            const Projection p{mode, overflow, 1 + static_cast<int>(random() % max_bits),
                               static_cast<Underflow>(random() % underflows), random() % 2 == 0};
            MpfrOracle mpfr(f, p);
            const oracle::BasicRationalOracle<Real> rational(f, p);
            for (std::size_t i = 0; i < samples; ++i) {
                const Real x = inputs[random() % inputs.size()];
                const std::uint64_t word = random();
                const Real first = mpfr.project(x, word), second = rational.project(x, word);
                ASSERT_EQ(oracle::bits_of(first), oracle::bits_of(second))
                    << f.name() << ' ' << to_string(mode) << ' ' << to_string(overflow) << ' '
                    << to_string(p.underflow) << " of " << std::hexfloat << x << ": MPFR " << first
                    << ", rational " << second << ", random bits " << p.random_bits << " of "
                    << std::hex << word;
            }
        }
    }
}

TEST(Oracle, TheTwoAgreeForEveryWidth) {
    std::mt19937_64 random(1);
    for (int e = 1; e <= 8; ++e) {
        for (int m = 0; m <= 12; ++m)
            expect_agreement<float>(make_format(e, m, e == 1 ? Specials::finite : Specials::ieee),
                                    random, 60);
        for (int m = 13; m <= 23; ++m) {
            FloatFormat f = make_format(e, m, Specials::ieee);
            if (e == 1) f = make_format(e, m, Specials::fn);
            expect_agreement<float>(f, random, 60);
        }
    }
}

const char* const unusual_formats[] = {"e4m3fn",
                                       "e5m2fnuz",
                                       "e2m3finite",
                                       "e0m5finite",
                                       "e4m3u",
                                       "e4m0",
                                       "e4m0fn",
                                       "e5m2nosub",
                                       "e4m3finiteb11nosub",
                                       "e4m3b0nosub",
                                       "e3m0nosub",
                                       "e4m3finiteb20sub-20",
                                       "e5m2finiteb63sub-63",
                                       "e3m4sub-3",
                                       "e3m0sub-3",
                                       "e4m3ub7nosub",
                                       "e8m0fnu",
                                       "e5m3fnunosubzero0",
                                       "e6m1unosubzero0",
                                       "binary8p1se",
                                       "binary8p1uf",
                                       "binary8p1ue",
                                       "binary5p2se",
                                       "binary6p4uf",
                                       "binary8p4se",
                                       "e4m3zero1",
                                       "e6m9fnnosub",
                                       "e8m3b127",
                                       "e8m7fnub140",
                                       "e4m3b-40",
                                       "e5m2b120"};

TEST(Oracle, TheTwoAgreeForEveryKindOfSpecialValues) {
    std::mt19937_64 random(2);
    for (const char* name : unusual_formats) {
        SCOPED_TRACE(name);
        expect_agreement<float>(parse_format(name), random, 2000);
        expect_agreement<double>(parse_format(name), random, 500);
    }
}

TEST(Oracle, TheTwoAgreeBeyondFp32) {
    std::mt19937_64 random(3);
    for (const char* name : {"fp64", "e11m0", "e11m10", "e11m51", "e1m52", "e9m43", "e4m30",
                             "e11m20nosub", "e10m40ub900nosub", "e9m9fnuz", "e11m0fnub1074nosub",
                             "e8m30finiteb200sub-200", "e5m40b-500"}) {
        SCOPED_TRACE(name);
        expect_agreement<double>(parse_format(name), random, 200);
    }
}

TEST(Oracle, StochasticRoundingHasExactlyTheStatedProbability) {
    const FloatFormat f = parse_format("e4m3");
    for (const int bits : {1, 2, 5, 8}) {
        MpfrOracle mpfr(f, {stochastic, ieee, bits});
        for (const float x : {1.0f, 1.01f, 1.0625f, 1.1249999f, 0x1p-11f, 0x1.8p-10f, 235.0f}) {
            const float lower = MpfrOracle(f, {toward_zero, ieee}).project(x, 0);
            std::uint64_t away = 0;
            for (std::uint64_t r = 0; r < std::uint64_t{1} << bits; ++r) {
                away += mpfr.project(x, r << (64 - bits)) != lower;
            }
            EXPECT_EQ(away, static_cast<std::uint64_t>(mpfr.up_count(x)))
                << x << " with " << bits << " bits";
        }
        EXPECT_EQ(static_cast<std::uint64_t>(mpfr.up_count(1.0625f)),
                  std::uint64_t{1} << (bits - 1));
        EXPECT_EQ(static_cast<std::uint64_t>(mpfr.up_count(0x1p-11f)),
                  (std::uint64_t{1} << bits) / 4);
    }
}

TEST(Oracle, AnInexactTruncationActsAsASlightlyLargerNumber) {
    mpfr_t x;
    mpfr_init2(x, 64);
    mpfr_set_d(x, 1.0625, MPFR_RNDZ);  // an e4m3 tie
    const FloatFormat f = parse_format("e4m3");
    EXPECT_EQ(MpfrOracle(f, {ties_to_even, ieee}).project(x, false, 0), 1.0f);
    EXPECT_EQ(MpfrOracle(f, {ties_to_even, ieee}).project(x, true, 0), 1.125f);
    mpfr_set_d(x, 1.0, MPFR_RNDZ);
    EXPECT_EQ(MpfrOracle(f, {toward_positive, ieee}).project(x, false, 0), 1.0f);
    EXPECT_EQ(MpfrOracle(f, {toward_positive, ieee}).project(x, true, 0), 1.125f);
    EXPECT_EQ(MpfrOracle(f, {to_odd, ieee}).project(x, true, 0), 1.125f);
    EXPECT_EQ(MpfrOracle(f, {ties_to_away, ieee}).project(x, true, 0), 1.0f);
    mpfr_clear(x);
}

TEST(Oracle, CasesHoldEveryValueAndMidpointOfASmallFormat) {
    const std::vector<float> inputs = oracle::cases<float>(parse_format("e2m1fn"), 0, 0);
    for (const float x : {0.0f, 0.25f, 0.5f, 0.75f, 1.0f, 1.25f, 1.5f, 1.75f, 2.0f, 2.5f, 3.0f,
                          3.5f, 4.0f, 5.0f, 6.0f, 7.0f}) {
        for (const float y : {x, std::nextafter(x, inf), std::nextafter(x, -inf)}) {
            for (const float z : {y, -y}) {
                EXPECT_TRUE(std::any_of(inputs.begin(), inputs.end(), [&](float i) {
                    return same(i, z);
                })) << z;
            }
        }
    }
}

// The rule, the array path and the codes against the oracles in every mode and overflow rule; up to
// 8 bits at every value and midpoint under ieee, else at a sample of these and near the edges.
// Overflow rules differ only at the edges, so each is tested in every other mode only. `apscope
// verify` tests more.
void expect_verified(const FloatFormat& f) {
    oracle::VerifyOptions options;
    options.threads = 1;
    options.random_cases = 20000;
    const int bits = f.storage_bits();
    options.rational_stride = bits > 12 ? 61 : 7;
    for (const RoundingMode mode : all_modes()) {
        if (bits > 16 && static_cast<int>(mode) % 4 != 0) continue;  // make exhaustive has the rest
        for (const Overflow overflow : allowed_overflows(f)) {
            if (overflow != ieee && (static_cast<int>(mode) + static_cast<int>(overflow)) % 2 != 0)
                continue;
            options.thinning = overflow != ieee || bits > 16      ? 97
                               : bits > 12 && is_stochastic(mode) ? 97
                               : bits > 8                         ? 7
                                                                  : 1;
            const oracle::VerifyResult result =
                oracle::verify(f, {mode, overflow, bits % 2 != 0 ? 32 : 13}, options);
            EXPECT_GT(result.cases, 100u);
            EXPECT_EQ(result.mismatches, 0u) << f.name() << ": " << oracle::describe(*result.first);
        }
    }
    for (const Underflow underflow :
         {Underflow::flush_result, Underflow::flush_input, Underflow::flush_both}) {
        if (f.smallest_normal() == 0) break;
        options.thinning = 97;
        const oracle::VerifyResult result =
            oracle::verify(f, {to_odd, ieee, 32, underflow, true}, options);
        EXPECT_EQ(result.mismatches, 0u) << f.name() << ": " << oracle::describe(*result.first);
    }
}

class NamedFormatVerify : public testing::TestWithParam<NamedFormat> {};

TEST_P(NamedFormatVerify, RuleArrayPathAndCodesMatchTheOraclesInEveryMode) {
    expect_verified(GetParam().format);
}

INSTANTIATE_TEST_SUITE_P(EveryNamedFormat, NamedFormatVerify,
                         testing::ValuesIn(named_formats().begin(), named_formats().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Verify, UnusualFormatsMatchTheOracles) {
    for (const char* name : unusual_formats) {
        const FloatFormat f = parse_format(name);
        if (f.storage_bits() <= 12) expect_verified(f);
    }
}

TEST(Verify, AMismatchNamesInputExpectedGotAndTheNeighbours) {
    oracle::Mismatch m;
    m.what = "the rule against MPFR";
    m.projection = {stochastic, saturate};
    m.input = 0x3F880000;
    m.expected = 0x3F900000;
    m.got = 0x3F800000;
    m.random = 0x8000000000000000;
    m.lower = 1.0f;
    m.upper = 1.125f;
    EXPECT_EQ(oracle::describe(m), "the rule against MPFR, stochastic, overflow saturate: input "
                                   "0x3F880000 (1.0625), expected 0x3F900000 "
                                   "(1.125), got 0x3F800000 (1); its magnitude lies between 1 and "
                                   "1.125; random word 0x8000000000000000");
}

TEST(Verify, StopsWhenProgressSaysSoOrThrows) {
    oracle::VerifyOptions options;
    options.exhaustive = true;
    const FloatFormat f = parse_format("e4m3");
    std::uint64_t largest_total = 0;
    const oracle::VerifyResult result =
        oracle::verify(f, {}, options, [&](std::uint64_t, std::uint64_t total) {
            largest_total = std::max(largest_total, total);
            return total < std::uint64_t{1} << 32;
        });
    EXPECT_TRUE(result.stopped);
    EXPECT_EQ(largest_total, std::uint64_t{1} << 32);
    EXPECT_LT(result.cases, std::uint64_t{1} << 32);
    EXPECT_THROW(oracle::verify(f, {}, options,
                                [](std::uint64_t, std::uint64_t total) -> bool {
                                    if (total == std::uint64_t{1} << 32)
                                        throw std::runtime_error("interrupted");
                                    return true;
                                }),
                 std::runtime_error);
}

}  // namespace

void PrintTo(const NamedFormat& format, std::ostream* stream) { *stream << format.name; }

}  // namespace apscope::detail

#endif
