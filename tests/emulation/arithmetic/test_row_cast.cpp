// Rows rounded and added in every mode, compared with the rule, element by element: values,
// midpoints, their neighbours, sums far apart, infinities, NaNs and both zeros.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/exact_sum.h"
#include "core/named_formats.h"
#include "emulation/arithmetic/row_cast.h"
#include "tests/support/on_level.h"

namespace apscope::detail {
namespace {

// Formats with signed zeros, gaps, no zero, no sign, one NaN, no infinity, saturation, fp32's
// exponents and wider exponents.
const char* const formats[] = {
    "e4m3",        "e5m2",        "fp16",     "bf16",         "tf32",      "fp32",      "e3m0",
    "e4m3fn",      "e4m3fnuz",    "e5m2fnuz", "e2m1",         "dlfloat16", "e4m3nosub", "e8m0fnu",
    "binary8p1se", "binary8p3uf", "e5m12",    "hfp8_forward", "e9m20"};

std::uint64_t bits_of_number(double x) { return bits_cast<std::uint64_t>(x); }

// fp32 numbers around the format's range, as fp64.
std::vector<double> numbers(const FloatFormat& f, std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<double> x;
    const double special[] = {0.0, -0.0,        INFINITY,     -INFINITY,
                              NAN, f.largest(), -f.largest(), f.smallest_positive()};
    for (const double v : special) x.push_back(static_cast<float>(v));
    while (x.size() < count) {
        const std::uint64_t word = random(), code = (word >> 8) % (f.top_finite_code() + 1);
        double v = f.magnitude(code);
        switch (word & 7) {
            case 0: v = (v + f.magnitude(code > 0 ? code - 1 : code)) / 2; break;
            case 1:
                v = std::nextafter((v + f.magnitude(code > 0 ? code - 1 : code)) / 2,
                                   word & 8 ? 1e30 : 0.0);
                break;
            case 2: v *= 1.0 + std::ldexp(static_cast<double>(word >> 40), -25); break;
            case 3:
                v = std::ldexp(static_cast<double>(word >> 41),
                               f.emin() - f.mantissa_bits - 26 +
                                   static_cast<int>((word >> 8) % 60));
                break;
            case 4: v = special[(word >> 8) % std::size(special)]; break;
            default: break;
        }
        if (std::abs(v) > 0x1p100) v = std::copysign(0x1p100, v);
        v = static_cast<float>(v);
        x.push_back(word >> 63 ? -v : v);
    }
    return x;
}

template <class Work>
void for_modes(Work&& work) {
    for (const char* name : formats) {
        const FloatFormat format = parse_format(name);
        for (int mode = 0; mode < rounding_mode_count; ++mode) {
            for (const Overflow overflow : {Overflow::ieee, Overflow::saturate, Overflow::propagate,
                                            Overflow::infinity, Overflow::nan}) {
                if ((overflow == Overflow::infinity && !format.has_infinity) ||
                    (overflow == Overflow::nan && !format.has_nan()))
                    continue;
                for (const int random_bits : {1, 8, 24, 32, 47, 60}) {
                    Projection p{static_cast<RoundingMode>(mode), overflow, random_bits};
                    if (!is_stochastic(p.rounding) && random_bits != 8) continue;
                    work(format, p,
                         std::string(name) + " " + std::string(to_string(p.rounding)) +
                             " N=" + std::to_string(random_bits));
                }
            }
        }
    }
}

class CastRows : public OnLevel {};

TEST_P(CastRows, RowsAreRoundedByTheRule) {
    constexpr std::size_t count = 1300, first = 77;
    for_modes([&](const FloatFormat& format, const Projection& p, const std::string& what) {
        if (p.rounding == RoundingMode::stochastic_exact) return;  // not for fp64 rows
        const RowCast row(format, p);
        const RandomStream stream{{3, 5}, 1, stage_and_hop(Stage::wire, 0), p.drawn_bits()};
        const std::vector<double> x = numbers(format, count, 7);
        for (const double scale : {1.0, 0.25, 3.7265625}) {
            std::vector<float> in(x.begin(), x.end());
            std::vector<double> out(count), same = x;
            row.round(in.data(), scale, out.data(), count, stream, first);
            row.round(same.data(), scale, same.data(), count, stream, first);
            for (std::size_t i = 0; i < count; ++i) {
                const double expected =
                    round_one<double>(x[i] * scale, row.cast(), stream.at(first + i));
                ASSERT_EQ(bits_of_number(out[i]), bits_of_number(expected))
                    << what << " of " << x[i] << " times " << scale;
                ASSERT_EQ(bits_of_number(same[i]), bits_of_number(expected)) << what << " in place";
            }
        }
    });
}

TEST_P(CastRows, SumsOfRowsAreRoundedOnce) {
    constexpr std::size_t count = 1300, first = 11;
    for_modes([&](const FloatFormat& format, const Projection& p, const std::string& what) {
        if (p.rounding == RoundingMode::stochastic_exact) return;  // refused for sums
        const RowCast row(format, p);
        const RandomStream stream{{3, 5}, 0, stage_and_hop(Stage::reduce, 2), p.drawn_bits()};
        const std::vector<double> a = numbers(format, count, 1);
        std::vector<double> b = numbers(format, count, 2);
        for (std::size_t i = 0; i < count; i += 9) b[i] = -a[i];  // exact zeros
        for (const double sign : {1.0, -1.0}) {
            std::vector<double> out(count), target = a;
            row.add(a.data(), b.data(), sign, out.data(), count, stream, first);
            row.add(target.data(), b.data(), sign, target.data(), count, stream, first);
            for (std::size_t i = 0; i < count; ++i) {
                const double expected = dispatch(p.rounding, [&]<RoundingMode M>() {
                    return add_rounded<M>(a[i], sign * b[i], row.cast(),
                                          is_stochastic(M) ? stream.at(first + i) : 0);
                });
                ASSERT_EQ(bits_of_number(out[i]), bits_of_number(expected))
                    << what << ": " << a[i] << " and " << sign * b[i];
                ASSERT_EQ(bits_of_number(target[i]), bits_of_number(expected))
                    << what << " in place";
            }
        }
    });
}

APSCOPE_ON_EVERY_LEVEL(CastRows);

}  // namespace
}  // namespace apscope::detail
