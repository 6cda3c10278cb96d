// Loops of the schemes compared with plain implementations, element by element, on every
// instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/codec.h"
#include "core/stochastic_moments.h"
#include "emulation/machine/divide.h"
#include "emulation/schemes/codecs/block_row.h"
#include "emulation/schemes/codecs/hadamard.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/definition.h"
#include "tests/support/on_level.h"

namespace apscope::detail {
namespace {

class SchemeLoops : public OnLevel {};

void expect_bits(const Row& a, const Row& b, const std::string& what) {
    ASSERT_EQ(a.size(), b.size()) << what;
    for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_EQ(std::bit_cast<std::uint64_t>(a[i]), std::bit_cast<std::uint64_t>(b[i]))
            << what << ", element " << i;
}

Row numbers(std::size_t n, std::mt19937_64& random, double size = 1.0) {
    Row x;
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < n; ++i) {
        const double v = i % 7 == 3   ? 0.0
                         : i % 7 == 5 ? -0.0
                                      : normal(random) * size * std::exp(4 * normal(random));
        x.push_back(std::clamp<double>(static_cast<float>(std::clamp<double>(v, -FLT_MAX, FLT_MAX)),
                                       -FLT_MAX, FLT_MAX));
    }
    return x;
}

TEST_P(SchemeLoops, SumsAndLargestMagnitudes) {
    std::mt19937_64 random(2);
    for (const std::size_t n : {0, 1, 15, 16, 17, 4095, 4096, 4097, 10000}) {
        const Row x = numbers(n, random);
        double amax = 0.0;
        for (const double v : x) amax = std::max(amax, std::abs(v));
        EXPECT_EQ(amax_of(x), amax) << n;
        const double squares = fixed_sum_of(RowReader::of(x), square);
        EXPECT_EQ(std::bit_cast<std::uint64_t>(squares),
                  std::bit_cast<std::uint64_t>(sum_of_squares(x)))
            << n;
        for (const int exponent :
             {-2000, -1074, -1000, -999, -100, -3, -1, 0, 1, 5, 100, 999, 1000, 1073, 2000}) {
            Row scaled = x;
            scaled.insert(scaled.end(), {DBL_MAX, -DBL_MIN, 0x1.fffffffffffffp-1022, 0x1.8p-1073});
            Row plain = scaled;
            multiply_by_power(scaled, exponent);
            for (double& v : plain) v = std::ldexp(v, exponent);
            expect_bits(scaled, plain, std::to_string(exponent));
        }
    }
}

// A division by a power of two is computed as a multiplication: the bits are those of a division,
// also for quotients that are subnormal or overflow.
TEST_P(SchemeLoops, RowsAreDivided) {
    std::mt19937_64 random(5);
    Row x = numbers(500, random);
    for (int e = -1074; e < 1024; e += 3)
        x.push_back(std::ldexp(1.0 + 0x1p-52 * static_cast<double>(random() >> 12), e));
    for (const double special : {0.0, -0.0, HUGE_VAL, -HUGE_VAL, DBL_MAX, DBL_MIN, 0x1p-1074})
        x.push_back(special);
    for (const double divisor : {1.0, 2.0, 8.0, 3.0, 7.0, 64.0, 0.125, 0.1, 0x1p998, 0x1p999,
                                 0x1p1000, 0x1p-1000, 0x1p-1001, 0x1p-1060, -4.0, 0.0}) {
        Row divided = x, plain = x;
        simd::run<DivideRow>(divided.data(), divisor, divided.size());
        for (double& v : plain) v /= divisor;
        for (std::size_t i = 0; i < x.size(); ++i) {
            ASSERT_TRUE(std::bit_cast<std::uint64_t>(divided[i]) ==
                            std::bit_cast<std::uint64_t>(plain[i]) ||
                        (std::isnan(divided[i]) && std::isnan(plain[i])))
                << x[i] << " / " << divisor;
        }
    }
}

TEST_P(SchemeLoops, Hadamard) {
    std::mt19937_64 random(1);
    for (const std::size_t length : {1, 2, 4, 8, 16, 32, 1024, 2048, 4096, 65536}) {
        for (const std::size_t runs : {0, 1, 3}) {
            Row x = numbers(length * runs, random), y = x;
            hadamard(x, length);
            for (std::size_t first = 0; first < y.size(); first += length) {
                double* part = y.data() + first;
                for (std::size_t half = 1; half < length; half *= 2) {
                    for (std::size_t i = 0; i < length; ++i) {
                        if ((i & half) != 0) continue;
                        const double a = part[i], b = part[i + half];
                        part[i] = a + b;
                        part[i + half] = a - b;
                    }
                }
                for (std::size_t i = 0; i < length; ++i)
                    part[i] *= 1.0 / std::sqrt(static_cast<double>(length));
            }
            expect_bits(x, y, "length " + std::to_string(length));
        }
    }
}

// An element's moments from the decoded values of its two neighbours.
void plain_moments(const BlockRow& row, const Row& x, const BlockFormat& format,
                   const Projection& projection, Row& bias, Row& variance) {
    const auto cast_of = [&](RoundingMode rounding) {
        return make_cast<double>(format.element,
                                 {rounding, Overflow::saturate, projection.random_bits});
    };
    const Cast<double> cast = cast_of(projection.rounding),
                       down = cast_of(RoundingMode::toward_zero),
                       up = cast_of(RoundingMode::away_from_zero);
    const BasicCodec<double> scales = make_codec<double>(format.scale);
    const double largest = format.element.largest();
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double scale =
            decode_one<double>(row.scales[i / static_cast<std::size_t>(format.block_size)], scales);
        double v = x[i] / scale;
        if (format.rule == ScaleRule::ratio) {
            const float multiply =
                std::min(1.0f / (static_cast<float>(scale) * (1.0f / row.tensor_scale)), FLT_MAX);
            v = std::clamp<double>(std::clamp(static_cast<float>(x[i]), -FLT_MAX, FLT_MAX) *
                                       multiply,
                                   -largest, largest);
        }
        const auto decoded = [&](double e) -> double {
            return format.tensor_scale ? static_cast<float>(e * scale) / row.tensor_scale
                                       : e * scale;
        };
        const RoundingMoments m = stochastic_moments(v, cast);
        if (m.variance == 0.0) {
            bias.push_back(decoded(v + m.bias) - x[i]);
            variance.push_back(0.0);
            continue;
        }
        const double low = round_to_format<RoundingMode::toward_zero, double>(v, down, 0);
        const double high = round_to_format<RoundingMode::away_from_zero, double>(v, up, 0);
        const double p = (v + m.bias - low) / (high - low), gap = decoded(high) - decoded(low);
        bias.push_back(decoded(low) + p * gap - x[i]);
        variance.push_back(p * (1.0 - p) * (gap * gap));
    }
}

TEST_P(SchemeLoops, MomentsOfBlocks) {
    std::mt19937_64 random(2);
    for (const char* name : {"nvfp4", "mxfp8_e4m3", "mxfp6_e2m3", "mxint8", "nvfp4,block=33",
                             "bfp:8:16", "blocks:e4m3fn,scale=e5m2,rule=ratio,block=5,tensor"}) {
        const BlockFormat format = parse_block_format(name);
        for (const RoundingMode mode : {RoundingMode::stochastic, RoundingMode::stochastic_b,
                                        RoundingMode::stochastic_equal}) {
            for (const int random_bits : {1, 7, 32, 48, 49, 53, 62}) {
                const Projection projection{mode, Overflow::saturate, random_bits};
                for (const double size : {1.0, 1e-39, 1e36}) {
                    const Row x = numbers(600, random, size);
                    const BlockRow row = encode_block_row(x, {format, projection},
                                                          {{{1, 2}, 0, 1u << 28, random_bits}, {}});
                    Message m;
                    state_blocks(m, row, x, {0, x.size(), row.scales.size()}, {format, projection},
                                 {});
                    Row bias, variance;
                    plain_moments(row, x, format, projection, bias, variance);
                    expect_bits(m.bias, bias, std::string(name) + ", bias");
                    expect_bits(m.variance, variance, std::string(name) + ", variance");
                }
            }
        }
    }
}

TEST_P(SchemeLoops, FixedPoint) {
    std::mt19937_64 random(3);
    for (const std::string keys : {"bits=8", "bits=16,chunk=100", "bits=4,chunk=1,scale=real",
                                   "bits=8,chunk=1000,rounding=stochastic",
                                   "bits=12,chunk=7,rounding=stochastic,random_bits=9",
                                   "bits=6,rounding=stochastic,scale=real,random_bits=53"}) {
        const Scheme scheme = parse_scheme("integer_allreduce:" + keys);
        const bool draws = scheme.parts.draws();
        TrainingStep step;
        step.workers = 1;
        step.key = {5, 6};
        Row x = numbers(900, random);
        for (std::size_t i = 0; i < 300; ++i)
            x[i] =
                static_cast<double>(static_cast<int>(random() % 41) - 20) / 8.0;  // ties among them
        State state;
        const RowReader row = RowReader::of(x);
        const Parameters theta = scheme.parts.choice.select({step, state, {&row, 1}});
        Message m;
        scheme.parts.encoding.encode({step, theta, {}, {0, x.size()}, x}, m);
        const Row factors = theta.rows().at("factor");
        const int random_bits = std::stoi(scheme.keys.at("random_bits"));
        const auto chunk = std::stoul(scheme.keys.at("chunk"));
        const RandomStream stream = step.stream(0, random_bits);
        Row codes, values, bias, variance;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double f = factors.at(i / chunk), v = x[i] * f, low = std::floor(v),
                         words = std::ldexp(1.0, random_bits);
            double q =
                (v - low > 0.5 || (v - low == 0.5 && std::fmod(low, 2.0) != 0.0)) ? low + 1.0 : low;
            if (draws) {
                const double up = std::floor((v - low) * words), p = up / words;
                q = low + (up + static_cast<double>(stream.at(i) >> (64 - random_bits)) >= words
                               ? 1.0
                               : 0.0);
                bias.push_back((low + p) / f - x[i]);
                variance.push_back(p * (1.0 - p) / f / f);
            }
            codes.push_back(q);
            values.push_back(q / f);
        }
        expect_bits(m.codes, codes, keys);
        expect_bits(m.values, values, keys);
        expect_bits(m.bias, bias, keys);
        expect_bits(m.variance, variance, keys);
    }
}

APSCOPE_ON_EVERY_LEVEL(SchemeLoops);

}  // namespace
}  // namespace apscope::detail
