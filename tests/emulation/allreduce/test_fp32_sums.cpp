// Fast fp32 computations compared with the exact ones that they replace: scaled casts, hops of an
// all-reduce, moments of draws, error statistics. Bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "analysis/statistics/error_statistics.h"
#include "analysis/statistics/exponent_histogram.h"
#include "core/named_formats.h"
#include "core/stochastic_moments.h"
#include "emulation/allreduce/fp32_sums.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/cast/row_moments.h"
#include "tests/support/error_statistics.h"

namespace apscope::detail {
namespace {

// fp32 numbers of every binade around 2^-k times the format's range, its values, midpoints and
// neighbours.
std::vector<float> rows_for(const FloatFormat& f, int k, std::size_t count, std::uint64_t seed,
                            bool special) {
    const RandomStream stream = array_stream(seed, 64);
    std::vector<float> x;
    const std::uint64_t top = f.top_finite_code();
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t word = stream.at(i);
        const int kind = static_cast<int>(word & 7);
        double v = f.magnitude((word >> 8) % (top + 1));
        if (kind == 1 && top > 0) v = (v + f.magnitude((word >> 8) % top + 1)) / 2;
        if (kind == 2) v *= 1.0 + std::ldexp(static_cast<double>(word >> 40), -26);
        if (kind == 3)
            v = std::ldexp(1.0 + static_cast<double>(word >> 41) * 0x1p-23,
                           f.emin() - f.mantissa_bits - 3 + static_cast<int>((word >> 8) % 40));
        float y = static_cast<float>(std::ldexp(v, -k));
        if (kind == 4) y = std::nextafter(y, 1e30f);
        if (kind == 5) y = 0.0f;
        if (special && (word >> 32 & 63) == 7) y = word & 256 ? INFINITY : NAN;
        x.push_back(word >> 63 ? -y : y);
    }
    return x;
}

struct Case {
    const char *sent, *accumulate;
    RoundingMode wire, hop;
    Overflow overflow = Overflow::ieee;
};
using enum RoundingMode;

const Case cases[] = {
    {"e4m3", "e4m3", ties_to_even, ties_to_even},
    {"e4m3", "e4m3", ties_to_even, ties_to_even, Overflow::saturate},
    {"e4m3fn", "e4m3fn", ties_to_even, ties_to_even},
    {"e4m3fnuz", "e4m3fnuz", ties_to_even, ties_to_even},
    {"e5m2", "e5m2", ties_to_even, ties_to_even},
    {"e5m2", "e5m2", ties_to_away, ties_to_away},
    {"e4m3", "e4m3", ties_to_zero, ties_to_zero},
    {"e4m3", "e4m3", toward_zero, toward_zero},
    {"e4m3", "e4m3", toward_positive, toward_positive},
    {"e4m3", "e4m3", ties_to_even, to_odd},
    {"e4m3", "e4m3", ties_to_even, away_from_zero},
    {"e4m3", "e4m3", stochastic, stochastic},
    {"e4m3", "e4m3", ties_to_even, stochastic},
    {"e4m3", "e4m3", stochastic, ties_to_even, Overflow::saturate},
    {"e4m3", "e4m3", stochastic_b, stochastic_c},
    {"e4m3", "e4m3", stochastic_equal, stochastic_equal},
    {"e3m0", "e3m0", ties_to_even, ties_to_even},
    {"e2m1", "e2m1", ties_to_even, ties_to_even},
    {"fp16", "fp16", ties_to_even, ties_to_even},
    {"e4m3", "fp16", ties_to_even, ties_to_even},
    {"e4m3", "fp32", ties_to_even, ties_to_even},
    {"fp16", "fp32", ties_to_even, ties_to_even},
    {"bf16", "bf16", ties_to_even, ties_to_even},
    {"bf16", "bf16", ties_to_even, ties_to_away, Overflow::saturate},
    {"e8m3", "e8m3", ties_to_even, ties_to_even},
    {"e8m3fn", "e8m3fn", ties_to_even, ties_to_even},
    {"bf16", "fp32", ties_to_even, ties_to_even},
    {"e4m3", "e2m1", ties_to_even, ties_to_even},
    {"dlfloat16", "dlfloat16", ties_to_even, ties_to_even},
    {"e4m3nosub", "e4m3nosub", ties_to_even, ties_to_even},
    {"binary8p1se", "binary8p1se", ties_to_even, ties_to_even},
    {"e5m2", "e4m3", ties_to_even, ties_to_even},
    {"e4m3", "e5m2", ties_to_even, ties_to_even},
    {"e2m5", "e2m5", ties_to_even, ties_to_even, Overflow::propagate},
};

bool same(double a, double b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (a != a && b != b);
}

TEST(Fp32Sums, AreTheSumsRoundedOnce) {
    constexpr std::size_t n = 1500, first = 8192;  // an odd tail, an offset as in a later block
    std::map<std::string, int> served;
    for (const Case& c : cases) {
        const FloatFormat sent = parse_format(c.sent), accumulate = parse_format(c.accumulate);
        Projection wire, hop;
        wire.rounding = c.wire;
        hop.rounding = c.hop;
        wire.overflow = hop.overflow = c.overflow;
        wire.random_bits = hop.random_bits = 12;
        for (const int k : {0, 7, -9, 40, -60, 110}) {
            for (const char* name : {"sequential", "ring", "tree", "hierarchical:3",
                                     "sequential+kahan", "butterfly", "fp32_accumulate", "pat",
                                     "nccl:ring", "nccl:tree", "nccl:symmetric", "nccl:nvls"}) {
                for (const int workers : {1, 2, 7}) {
                    const auto sums =
                        fp32_sums(parse_topology(name), sent, accumulate, hop, k, workers);
                    const auto grid = scaled_format(sent, k);
                    if (!grid) continue;
                    const PhiloxKey key = seed_key(3);
                    QuantizeJob<float> job = make_row_job(*grid, wire);
                    const RowCast cast(sent, wire);
                    std::vector<std::vector<float>> narrow;
                    std::vector<std::vector<double>> wide;
                    for (int w = 0; w < workers; ++w) {
                        const std::vector<float> x =
                            rows_for(sent, k, n, static_cast<std::uint64_t>(w), true);
                        narrow.emplace_back(n);
                        wide.emplace_back(n);
                        const RandomStream stream{key, static_cast<std::uint32_t>(w),
                                                  stage_and_hop(Stage::wire, 0), 12};
                        round_row(job, x.data(), narrow.back().data(), n, stream, first);
                        encode_row(x, wide.back().data(), std::ldexp(1.0, k), cast, key,
                                   static_cast<std::uint32_t>(w), first);
                        for (std::size_t i = 0; i < n; ++i) {
                            ASSERT_TRUE(same(std::ldexp(narrow.back()[i], k), wide.back()[i]))
                                << c.sent << " k=" << k << " x=" << x[i];
                        }
                    }
                    if (!sums) continue;
                    ++served[name];
                    std::vector<const float*> narrow_rows;
                    std::vector<const double*> wide_rows;
                    for (int w = 0; w < workers; ++w) {
                        narrow_rows.push_back(narrow[static_cast<std::size_t>(w)].data());
                        wide_rows.push_back(wide[static_cast<std::size_t>(w)].data());
                    }
                    std::vector<float> narrow_sum(n);
                    ReduceScratch<float> narrow_scratch;
                    ReduceScratch<double> scratch;
                    std::vector<double> wide_sum(n), bias(n), variance(n), other_bias(n),
                        other_variance(n);
                    HopMoments moments{bias, variance}, other{other_bias, other_variance};
                    Fp32Sums own = *sums;
                    reduce(parse_topology(name), narrow_rows, first, n, first + n + 100, own, key,
                           narrow_sum, narrow_scratch, &moments);
                    reduce(parse_topology(name), wide_rows, first, n, first + n + 100,
                           make_accumulator(accumulate, hop), key, wide_sum, scratch, &other);
                    EXPECT_EQ(moments.defined, other.defined);
                    for (std::size_t i = 0; i < n; ++i) {
                        ASSERT_TRUE(same(std::ldexp(narrow_sum[i], k), wide_sum[i]))
                            << c.sent << " in " << c.accumulate << ", " << name << ", k=" << k
                            << ", W=" << workers << ": " << narrow_sum[i] << " " << wide_sum[i];
                        ASSERT_EQ(bias[i], other_bias[i]) << c.sent << " " << name << " k=" << k;
                        ASSERT_EQ(variance[i], other_variance[i]);
                    }
                }
            }
        }
    }
    EXPECT_EQ(served.size(), 12u);  // the fp32 path was used for every topology
    for (const auto& [name, times] : served)
        EXPECT_GT(times, name == "nccl:nvls" ? 20 : 200) << name;
}

TEST(Fp32Sums, RefuseWhatFp32CannotHold) {
    Projection to_even, down;
    down.rounding = RoundingMode::toward_negative;
    const auto served = [](const char* sent, const char* accumulate, const Projection& p, int k) {
        return fp32_sums(parse_format(sent), parse_format(accumulate), p, k, 8).has_value();
    };
    EXPECT_TRUE(served("e4m3", "e4m3", to_even, 20));
    EXPECT_TRUE(served("bf16", "bf16", to_even, 0));     // a sum beyond fp32 is beyond bf16
    EXPECT_FALSE(served("e4m3", "e4m3", down, 0));       // x - x is -0
    EXPECT_FALSE(served("e4m3", "e4m3", to_even, 200));  // beyond fp32's subnormal numbers
    EXPECT_FALSE(served("tf32", "e5m7", to_even, 0));  // terms of more digits than the accumulator
    EXPECT_FALSE(served("e5m12", "e5m12", to_even, 0));  // 24 < 2p + 2
    Projection to_odd;
    to_odd.rounding = RoundingMode::to_odd;
    EXPECT_FALSE(served("e5m2", "e5m2", to_odd, 0));  // sums of 33 bits
}

TEST(RowMoments, AreThoseOfEachDraw) {
    for (const char* name : {"e4m3", "e5m2", "fp16", "e3m0", "e8m7", "tf32", "dlfloat16", "e2m1"}) {
        const FloatFormat f = parse_format(name);
        for (const RoundingMode mode : {stochastic, stochastic_b, stochastic_c, stochastic_equal}) {
            for (const int bits : {1, 5, 16, 32, 48, 56}) {
                for (const bool saturates : {false, true}) {
                    Projection p;
                    p.rounding = mode;
                    p.random_bits = bits;
                    p.overflow = saturates ? Overflow::saturate : Overflow::ieee;
                    const Cast<double> cast = make_cast<double>(f, p);
                    for (const bool special : {false, true}) {
                        const std::vector<float> x = rows_for(f, -3, 777, 9, special);
                        std::vector<double> bias(x.size(), 0.5), variance(x.size(), 0.25);
                        const bool defined = add_moments(x.data(), x.size(), 0.125, cast,
                                                         bias.data(), variance.data());
                        bool expected = true;
                        for (std::size_t i = 0; i < x.size(); ++i) {
                            const RoundingMoments m = stochastic_moments(x[i] * 0.125, cast);
                            expected = expected && m.defined;
                            ASSERT_EQ(bias[i], 0.5 + m.bias)
                                << name << " " << x[i] << " N=" << bits;
                            ASSERT_EQ(variance[i], 0.25 + m.variance)
                                << name << " " << x[i] << " N=" << bits;
                        }
                        EXPECT_EQ(defined, expected) << name;
                    }
                }
            }
        }
    }
}

// add_block() by its definition, pair by pair.
ErrorStatistics by_definition(const std::vector<double>& x, const std::vector<double>& y,
                              const FloatScale& s) {
    ErrorStatistics r;
    double lane[7][16] = {};
    for (std::size_t i = 0; i < x.size(); ++i) {
        ++r.count;
        if (!std::isfinite(x[i])) {
            (std::isnan(x[i]) ? r.nan : r.infinite) += 1;
            continue;
        }
        r.nonzero += x[i] != 0;
        r.underflow += x[i] != 0 && y[i] == 0;
        if (!std::isfinite(y[i])) {
            ++r.overflow;
            continue;
        }
        ++r.counted;
        const double e = y[i] - x[i];
        const double terms[7] = {e,
                                 e * e,
                                 x[i] * x[i],
                                 std::abs(x[i]),
                                 x[i] == 0 ? 0.0 : std::copysign(1.0, x[i]) * e,
                                 x[i] * y[i],
                                 y[i] * y[i]};
        for (int k = 0; k < 7; ++k) lane[k][i % 16] += terms[k];
        const double scaled = std::abs(x[i]) * s.units * s.scale;
        const int q =
            std::max(scaled == 0 ? -5000 : std::ilogb(scaled), s.cast.emin) - s.cast.mantissa_bits;
        r.max_ulp = std::max(r.max_ulp, std::ldexp(std::abs(e) * s.units * s.scale, -q));
    }
    for (int k = 0; k < 7; ++k) {
        for (int width = 8; width > 0; width /= 2) {
            for (int j = 0; j < width; ++j) lane[k][j] += lane[k][j + width];
        }
        r.sums[static_cast<std::size_t>(k)] = lane[k][0];
    }
    return r;
}

TEST(ErrorStatistics, FollowTheirDefinition) {
    const FloatFormat f = parse_format("e4m3");
    for (const bool special : {false, true}) {
        for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{15},
                                    std::size_t{16}, std::size_t{1000}, std::size_t{4096}}) {
            for (const double scale : {1.0, 0x1p-20, 0x1p40, 3.0}) {
                for (const double units : {1.0, 7.0}) {
                    std::vector<float> x = rows_for(f, 0, n, 4, special), y(n);
                    for (std::size_t i = 0; i < n; ++i)
                        y[i] = round_one<float>(x[i], make_cast<float>(f, {}));
                    const FloatScale s{make_cast<double>(f, {}), scale, units, f.smallest_normal(),
                                       f.largest()};
                    const std::vector<double> wide_x(x.begin(), x.end()),
                        wide_y(y.begin(), y.end());
                    const ErrorStatistics expected = by_definition(wide_x, wide_y, s);
                    ErrorStatistics narrow, wide, with_known;
                    narrow.add_block<float>(x, y, &s, {}, {});
                    wide.add_block<double>(wide_x, wide_y, &s, {}, {});
                    const ReferenceSums known = reference_sums(wide_x);
                    with_known.add_block<double>(wide_x, wide_y, &s, {}, {}, &known);
                    for (const ErrorStatistics& found : {narrow, wide, with_known})
                        test::expect_same(found, expected, "n = " + std::to_string(n));
                    ErrorStatistics limits, same_limits;
                    const FloatScale plain{make_cast<double>(f, {}), 1.0, 1.0, f.smallest_normal(),
                                           f.largest()};
                    limits.count_limits(wide_x, wide_y, plain);
                    same_limits.count_limits(x, y, static_cast<float>(f.smallest_normal()),
                                             static_cast<float>(f.largest()));
                    EXPECT_EQ(limits.subnormal, same_limits.subnormal);
                    EXPECT_EQ(limits.saturated, same_limits.saturated);
                }
            }
        }
    }
}

TEST(ExponentHistogram, CountsEveryBinade) {
    std::vector<float> x;
    for (std::uint32_t i = 0; i < 300000; ++i) x.push_back(std::bit_cast<float>(i * 14323u));
    ExponentHistogram h;
    h.add(x);
    ExponentHistogram each;
    each.add_each(x);
    EXPECT_EQ(h.finite, each.finite);
    EXPECT_EQ(h.amax, each.amax);
    EXPECT_EQ(h.nan + h.zero + h.infinite, each.nan + each.zero + each.infinite);
    ExponentHistogram expected;
    for (const float v : x) {
        if (std::isnan(v)) ++expected.nan;
        else if (std::isinf(v)) ++expected.infinite;
        else if (v == 0) ++expected.zero;
        else {
            ++expected.finite[static_cast<std::size_t>(std::ilogb(v) + 149)];
            expected.amax = std::max(expected.amax, std::abs(v));
        }
    }
    EXPECT_EQ(h.finite, expected.finite);
    EXPECT_EQ(h.zero, expected.zero);
    EXPECT_EQ(h.infinite, expected.infinite);
    EXPECT_EQ(h.nan, expected.nan);
    EXPECT_EQ(h.amax, expected.amax);
}

}  // namespace
}  // namespace apscope::detail
