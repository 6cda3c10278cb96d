// Stochastic casts by sums of digits (stochastic_digits.h) are the rule in every mode and number of
// random bits, in fp32 and fp64, on every instruction set: with drawn words, and with the two
// neighbouring words between which the rule's result changes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/named_formats.h"
#include "emulation/cast/quantize.h"
#include "tests/support/on_level.h"

namespace apscope::detail {
namespace {

// Magnitudes from 2^-80 times the smallest value to beyond the largest, with few or many one bits:
// ties, ties with one more low bit, and numbers between.
template <class Real>
std::vector<Real> numbers(const FloatFormat& f, std::size_t count) {
    std::mt19937_64 random(5);
    const int low = std::ilogb(f.smallest_positive()), high = std::ilogb(f.largest()) + 1;
    std::vector<Real> x(count);
    for (std::size_t i = 0; i < count; ++i) {
        const int depth = i % 3 == 0 ? 80 : 12;
        const int exponent = low - depth +
                             static_cast<int>(random() % static_cast<std::uint64_t>(
                                                             std::min(high - low, 40) + depth));
        std::uint64_t digits = random() | std::uint64_t{1} << 63;
        if (i % 4 != 0) digits &= std::uint64_t{1} << 63 | (random() & random() & random());
        if (i % 8 == 1) digits &= ~std::uint64_t{0} << (63 - random() % 12);
        // Keeps the digits that fit into a Real, and sets the last of them in some numbers.
        constexpr int dropped = 63 - Layout<Real>::fraction_bits;
        digits = (digits >> dropped | (i % 5 == 0)) << dropped;
        const double magnitude = std::ldexp(static_cast<double>(digits), exponent - 63);
        x[i] = static_cast<Real>(random() % 2 == 0 ? magnitude : -magnitude);
    }
    x[3] = 0;
    x[4] = static_cast<Real>(-0.0);
    x[5] = std::numeric_limits<Real>::denorm_min();
    return x;
}

// The first of the 2^N words by which the rule rounds up, or 2^N - 1.
template <RoundingMode M, class Real>
std::uint64_t turn(Real x, const Cast<Real>& cast) {
    const int left = 64 - cast.random_bits;
    const std::uint64_t last = ~std::uint64_t{0} >> left;
    const auto rounded = [&](std::uint64_t word) {
        return bits_cast<BitsOf<Real>>(round_to_format<M, Real>(x, cast, word << left));
    };
    std::uint64_t below = 0, up = last;
    if (rounded(below) == rounded(up)) return up;
    while (up - below > 1) {
        const std::uint64_t middle = below + (up - below) / 2;
        (rounded(middle) == rounded(last) ? up : below) = middle;
    }
    return up;
}

class StochasticDigits : public OnLevel {};

template <RoundingMode M, class Real>
void expect_the_rule(const char* name) {
    const FloatFormat f = parse_format(name);
    const std::vector<Real> in = numbers<Real>(f, 1500);
    std::vector<Real> got(in.size());
    std::vector<std::uint64_t> turns(in.size());
    for (const int bits : {1, 2, 3, 8, 15, 16, 17, 29, 30, 31, 32, 33, 40, 52, 61, 62, 63, 64}) {
        if ((M == RoundingMode::stochastic_b || M == RoundingMode::stochastic_c) && bits > 62)
            continue;
        const Projection p{M, Overflow::ieee, bits};
        const RandomStream stream = array_stream(7, bits);
        const Cast<Real> cast = make_cast<Real>(f, p);
        const auto expect = [&](const char* words, auto word) {
            for (std::size_t i = 0; i < in.size(); ++i) {
                const Real wanted = round_to_format<M, Real>(in[i], cast, word(i));
                ASSERT_EQ(bits_cast<BitsOf<Real>>(got[i]), bits_cast<BitsOf<Real>>(wanted))
                    << name << " " << to_string(M) << " " << bits << " bits, " << words << " "
                    << word(i) << ": " << in[i] << " became " << got[i];
            }
        };
        quantize(std::span<const Real>(in), got, f, p, {7, 0, {}});
        expect("drawn", [&](std::size_t i) { return stream.at(i); });
        for (std::size_t i = 0; i < in.size(); ++i) turns[i] = turn<M>(in[i], cast);
        const auto given = [&](std::size_t i) { return turns[i] << (64 - bits); };
        quantize(std::span<const Real>(in), got, f, p, {0, 0, turns});
        expect("first that rounds up", given);
        for (std::uint64_t& word : turns) word -= word != 0;
        quantize(std::span<const Real>(in), got, f, p, {0, 0, turns});
        expect("last that rounds down", given);
        if (testing::Test::HasFatalFailure()) return;
    }
}

// Numbers whose last digit lies beyond the 32nd or the 64th digit of eta; formats without -0,
// without a sign, of precision 1, with an irregular gap (by the rule).
template <RoundingMode M>
void expect_the_rule_everywhere() {
    for (const char* name :
         {"e4m3", "fp16", "e5m16", "e8m1", "e4m3fnuz", "e4m3u", "e3m2b-100", "e4m3nosub"})
        expect_the_rule<M, float>(name);
    for (const char* name : {"e4m3", "bf16", "e8m23", "e11m40", "e3m2b-700", "e4m3u", "e5m10fnuz"})
        expect_the_rule<M, double>(name);
}

TEST_P(StochasticDigits, A) { expect_the_rule_everywhere<RoundingMode::stochastic>(); }
TEST_P(StochasticDigits, B) { expect_the_rule_everywhere<RoundingMode::stochastic_b>(); }
TEST_P(StochasticDigits, C) { expect_the_rule_everywhere<RoundingMode::stochastic_c>(); }
TEST_P(StochasticDigits, Equal) { expect_the_rule_everywhere<RoundingMode::stochastic_equal>(); }

APSCOPE_ON_EVERY_LEVEL(StochasticDigits);

}  // namespace
}  // namespace apscope::detail
