// encode_levels has the bits of the plain rule, element by element: codebooks of every kind and
// size, every width of the random words, runs that start anywhere, on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "emulation/schemes/codecs/levels.h"
#include "tests/support/on_level.h"

namespace apscope::detail {
namespace {

struct Plain {
    double code, value, bias = 0.0, variance = 0.0;
};

Plain plain(double x, const Row& levels, double scale, LevelRule rule, const RandomStream& stream,
            std::uint64_t element) {
    const double unit = scale == 0.0 ? 1.0 : scale, u = x / unit,
                 words = std::ldexp(1.0, stream.random_bits);
    std::size_t above = 0;
    while (above < levels.size() && levels[above] <= u) ++above;
    std::size_t code = above == 0 ? 0 : above - 1;
    Plain y{};
    if (above != 0 && above != levels.size()) {
        const double low = levels[code], gap = levels[above] - low, eta = (u - low) / gap;
        if (rule == LevelRule::nearest) {
            code += eta >= 0.5 ? 1 : 0;
        } else {
            const double up = std::floor(eta * words),
                         random =
                             static_cast<double>(stream.at(element) >> (64 - stream.random_bits)),
                         p = up / words;
            y.bias = (low + p * gap) * unit - x;
            y.variance = p * (1.0 - p) * ((gap * unit) * (gap * unit));
            code += up + random >= words ? 1 : 0;
        }
    } else if (rule == LevelRule::stochastic) {
        y.bias = levels[code] * unit - x;
    }
    y.code = static_cast<double>(code);
    y.value = levels[code] * unit;
    return y;
}

class EncodeLevels : public OnLevel {};

std::vector<Row> codebooks(std::mt19937_64& random) {
    std::vector<Row> all{{0.0}, {-1.0, 1.0}, {-1.0, 0.0, 1.0}, {-3e38, -1e-40, 0.0, 2.0, 3e38}};
    for (const int size : {16, 47, 48, 49, 300}) {
        Row row;
        for (int i = 0; i < size; ++i)
            row.push_back(static_cast<float>(std::normal_distribution<double>()(random)));
        std::sort(row.begin(), row.end());
        row.erase(std::unique(row.begin(), row.end()), row.end());
        all.push_back(row);
    }
    for (const auto& [first, size] : {std::pair{0, 4}, {0, 64}, {-128, 256}, {-5, 60}, {0, 4096}}) {
        Row row;
        for (int i = 0; i < size; ++i) row.push_back(first + i);
        all.push_back(row);
    }
    Row almost = all.back();  // integers, except one
    almost[100] += 0.25;
    all.push_back(almost);
    return all;
}

bool same(double a, double b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

TEST_P(EncodeLevels, HasThePlainBits) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    std::size_t round = 0;
    for (const Row& levels : codebooks(random)) {
        for (const double scale : {1.0, 0.37, 1e-30, 1e-310, 0.0}) {
            for (const std::size_t n : {0, 1, 7, 255, 256, 257, 700}) {
                const int random_bits =
                    std::vector{1, 5, 8, 15, 16, 17, 31, 32, 33, 52, 53}[round++ % 11];
                const RandomStream stream{
                    {static_cast<std::uint32_t>(random()), 7}, 3, 1u << 28, random_bits};
                const std::size_t first = random() % 3 == 0 ? 0 : random() % 1000;
                const double unit = scale == 0.0 ? 1.0 : scale,
                             range = std::max(std::abs(levels.front()), std::abs(levels.back()));
                Row x;
                for (std::size_t i = 0; i < n; ++i) {
                    double v = normal(random) * (range == 0.0 ? 1.0 : range) * unit;
                    if (i % 4 == 1) v = levels[random() % levels.size()] * unit;  // on a level
                    if (i % 8 == 1) v = std::nextafter(v, random() % 2 == 0 ? DBL_MAX : -DBL_MAX);
                    if (i % 16 == 2) v = random() % 2 == 0 ? 0.0 : -0.0;
                    if (i % 16 == 6) v = (random() % 2 == 0 ? 1.0 : -1.0) * FLT_MAX;
                    x.push_back(std::clamp<double>(v, -FLT_MAX, FLT_MAX));
                }
                for (const LevelRule rule : {LevelRule::nearest, LevelRule::stochastic}) {
                    const Message m = encode_levels(x, levels, scale, rule, stream, false, first);
                    ASSERT_EQ(m.values.size(), n);
                    for (std::size_t i = 0; i < n; ++i) {
                        const Plain y = plain(x[i], levels, scale, rule, stream, first + i);
                        ASSERT_TRUE(same(m.codes[i], y.code) && same(m.values[i], y.value))
                            << x[i] << " of " << levels.size() << " levels";
                        if (rule == LevelRule::nearest) continue;
                        ASSERT_TRUE(same(m.bias[i], y.bias) && same(m.variance[i], y.variance))
                            << x[i] << " of " << levels.size() << " levels";
                    }
                }
            }
        }
    }
}

APSCOPE_ON_EVERY_LEVEL(EncodeLevels);

}  // namespace
}  // namespace apscope::detail
