// Stochastic rounding as one addition of 64-bit integers (emulation/cast/stochastic_bits.h) equals
// the rule for every format it serves, random integers at both sides of eta included.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/named_formats.h"
#include "emulation/cast/stochastic_bits.h"
#include "tests/support/cuda_inputs.h"

namespace apscope::detail {
namespace {

// A random number of 256 digits.
struct Digits {
    std::uint64_t word[4];
};
std::uint64_t random_digits(const Digits& digits, int index) {
    return index < 4 ? digits.word[index] : 0;
}

// The digits of eta, 64 a word, by the rule's quantum.
Digits eta_digits(float x, const Cast<float>& cast) {
    Digits digits{};
    const std::uint32_t magnitude = bits_cast<std::uint32_t>(x) & 0x7FFFFFFFu;
    if (magnitude == 0 || magnitude >= infinity_bits<float>) return digits;
    const int exponent = exponent_of<float>(magnitude);
    const int field = static_cast<int>(magnitude >> 23);
    const std::uint32_t significand =
        field != 0 ? (magnitude & 0x7FFFFFu) | 0x800000u : magnitude & 0x7FFFFFu;
    const int shift = (exponent > cast.emin ? exponent : cast.emin) - cast.mantissa_bits -
                      ((field != 0 ? field : 1) - 150);
    for (int bit = 0; bit < 24; ++bit) {
        const int place = shift - 1 - bit;  // the digit after the point
        if ((significand >> bit & 1) != 0 && place >= 0 && place < 256)
            digits.word[place / 64] |= std::uint64_t{1} << (63 - place % 64);
    }
    return digits;
}

std::vector<float> inputs(const Cast<float>& cast) {
    std::vector<float> found;
    for (std::uint32_t field = 0; field < 512; ++field) {
        const std::uint32_t drawn = philox({{field, 0, 0, 0}}, {3, 4}).word[0] & 0x7FFFFFu;
        for (const std::uint32_t low : {0u, 1u, 0x400000u, 0x7FFFFFu, drawn, drawn & 0x7FF000u})
            found.push_back(bits_cast<float>(field << 23 | low));
    }
    for (int above = -4; above <= 4; ++above) {
        found.push_back(bits_cast<float>(cast.largest + static_cast<std::uint32_t>(above)));
        found.push_back(bits_cast<float>(cast.quantum + static_cast<std::uint32_t>(above)));
    }
    return found;
}

template <RoundingMode M>
std::size_t differences(const Cast<float>& cast) {
    const SplitCast split = make_split_cast(cast);
    const int left = M == RoundingMode::stochastic_exact ? 0 : 64 - cast.random_bits;
    std::size_t different = 0;
    std::uint32_t number = 0;
    const auto compare = [&](float x, const Digits& random) {
        const std::uint64_t word = random.word[0] >> left << left;
        const auto further = [&](std::uint32_t magnitude) {
            return drawn_below_bits(magnitude, split, random);
        };
        const float found =
            draw_bits<M, true>(x, split, added_bits<M>(word, cast.random_bits), further);
        float expected = 0;
        if constexpr (M == RoundingMode::stochastic_exact)
            expected = round_to_format<M, float>(x, cast, random);
        else expected = round_to_format<M, float>(x, cast, word);
        different += bits_cast<std::uint32_t>(found) != bits_cast<std::uint32_t>(expected);
    };
    for (const float x : inputs(cast)) {
        const Digits eta = eta_digits(x, cast);
        for (const std::uint64_t step :
             {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 31, std::uint64_t{1} << 32,
              std::uint64_t{1} << left, std::uint64_t{1} << left >> 1}) {
            for (const bool complement : {false, true}) {
                for (const std::uint64_t by : {step, 0 - step}) {
                    Digits random = eta;
                    if (complement) random.word[0] = 0 - random.word[0];
                    random.word[0] += by;
                    compare(x, random);
                }
            }
        }
        Digits further = eta;
        further.word[1] += 1;
        compare(x, further);
        further.word[1] -= 2;
        compare(x, further);
        for (int draw = 0; draw < 2; ++draw) {
            const PhiloxBlock b = philox({{number++, 0, 0, 0}}, {5, 6});
            compare(x, {{std::uint64_t{b.word[0]} << 32 | b.word[1], 0, 0, 0}});
        }
        compare(x, {{0, 0, 0, 0}});
        compare(x, {{~std::uint64_t{0}, ~std::uint64_t{0}, 0, 0}});
    }
    return different;
}

// Compares all modes and widths with the rule; returns how many casts the bits serve.
int expect_rule(const FloatFormat& format, Overflow overflow, const std::vector<int>& widths) {
    int served = 0;
    for (int mode = 0; mode < rounding_mode_count; ++mode) {
        const auto rounding = static_cast<RoundingMode>(mode);
        if (!is_stochastic(rounding)) continue;
        for (const int random_bits : widths) {
            const Projection projection{rounding, overflow, random_bits};
            try {
                validate(projection, format);
            } catch (const std::invalid_argument&) {
                continue;
            }
            const auto cast = make_cast<float>(format, projection);
            if (!bits_serve(format, cast)) continue;
            ++served;
            dispatch(rounding, [&]<RoundingMode M>() {
                if constexpr (is_stochastic(M)) {
                    EXPECT_EQ(differences<M>(cast), 0u)
                        << format.name() << " " << to_string(rounding) << " " << to_string(overflow)
                        << " random_bits=" << random_bits;
                }
            });
        }
    }
    return served;
}

std::vector<int> all_widths() {
    std::vector<int> widths;
    for (int n = 1; n <= 64; ++n) widths.push_back(n);
    return widths;
}

TEST(StochasticBits, EveryWidthEqualsTheRule) {
    for (const char* name : {"e4m3", "bf16", "e5m2"})
        EXPECT_GE(expect_rule(parse_format(name), Overflow::ieee, all_widths()), 4 * 32) << name;
}

TEST(StochasticBits, EveryNamedFormatAndOverflowEqualsTheRule) {
    int served = 0;
    for (const NamedFormat& named : named_formats()) {
        if (!named.format.fits_fp32()) continue;
        for (int overflow = 0; overflow < overflow_count; ++overflow)
            served += expect_rule(named.format, static_cast<Overflow>(overflow), {1, 32});
    }
    EXPECT_GE(served, 500);
}

// Quanta that fp32 has as subnormal numbers only, quanta above 1, and numbers far below the
// quantum.
TEST(StochasticBits, FormatsAtTheEndsOfFp32EqualTheRule) {
    for (const char* name : {"e5m10b120", "e4m3b126", "e6m16b100", "e4m3b-60", "e3m0b-100", "e8m22",
                             "e7m15", "e4m0b64", "e4m3b64", "e4m3b65", "e2m12b-122"}) {
        const FloatFormat format = parse_format(name);
        ASSERT_TRUE(format.fits_fp32()) << name;
        EXPECT_GT(expect_rule(format, Overflow::saturate, {1, 8, 31, 32}), 8) << name;
    }
}

TEST(StochasticBits, ServesEveryWidthOfRandomWords) {
    const auto serves = [](const char* name, RoundingMode mode, int random_bits) {
        const FloatFormat format = parse_format(name);
        return bits_serve(format, make_cast<float>(format, {mode, Overflow::ieee, random_bits}));
    };
    EXPECT_TRUE(serves("e4m3", RoundingMode::stochastic, 52));
    EXPECT_FALSE(serves("e4m3", RoundingMode::stochastic, 53));
    EXPECT_TRUE(serves("e4m3", RoundingMode::stochastic_b, 32));
    EXPECT_TRUE(serves("e4m3", RoundingMode::stochastic_exact, 32));
    EXPECT_FALSE(serves("e4m3", RoundingMode::ties_to_even, 32));
    EXPECT_FALSE(serves("e8m0fnu", RoundingMode::stochastic, 32));
    EXPECT_FALSE(serves("fp32", RoundingMode::stochastic, 32));
}

}  // namespace
}  // namespace apscope::detail
