// The noise of the batch compared with its definition in long double; 2^x compared with the C
// library's.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/fixed_exp2.h"
#include "emulation/allreduce/batch_noise.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {
namespace {

struct Gradients {
    std::vector<std::vector<float>> held;
    std::vector<std::span<const float>> rows;
};

Gradients some(std::size_t workers, std::size_t n) {
    std::mt19937_64 random(3);
    std::normal_distribution<float> normal;
    Gradients g;
    for (std::size_t w = 0; w < workers; ++w) {
        g.held.emplace_back(n);
        for (std::size_t i = 0; i < n; ++i)
            g.held[w][i] = std::ldexp(normal(random), -static_cast<int>(i / 100 % 20));
    }
    g.rows.assign(g.held.begin(), g.held.end());
    return g;
}

// N of the noise block that begins at element `first`. With `without`, that worker's gradient is
// left out, but N is still that of a mean over all workers.
long double noise_at(const Gradients& g, std::size_t first, bool divide,
                     std::size_t without = ~std::size_t{0}) {
    std::vector<const float*> rows;
    for (std::size_t w = 0; w < g.held.size(); ++w) {
        if (w != without) rows.push_back(g.held[w].data());
    }
    const auto kept = static_cast<long double>(rows.size()),
               all = static_cast<long double>(g.held.size());
    long double sum = 0;
    for (std::size_t i = first; i < std::min(first + noise_block, g.held[0].size()); ++i) {
        long double mean = 0;
        for (const float* row : rows) mean += row[i] / kept;
        for (const float* row : rows) sum += (row[i] - mean) * (row[i] - mean);
    }
    return sum / (kept - 1) * (divide ? 1 / all : all);
}

TEST(BatchNoise, IsTheVarianceOfTheMeanOrOfTheSum) {
    for (const std::size_t workers : {2u, 3u, 8u}) {
        for (const std::size_t n : {1u, 31u, 32u, 33u, 4096u, 4096u + 905u}) {
            const Gradients g = some(workers, n);
            for (const bool divide : {true, false}) {
                const BatchNoise noise = batch_noise(g.rows, divide);
                ASSERT_EQ(noise.blocks.size(), noise_blocks_of(n));
                long double sum = 0;
                for (std::size_t b = 0; b < noise.blocks.size(); ++b) {
                    const long double expected = noise_at(g, b * noise_block, divide);
                    EXPECT_NEAR(noise.blocks[b] / static_cast<double>(expected), 1.0, 1e-13);
                    sum += expected;
                }
                EXPECT_EQ(noise.noisy_blocks, noise.blocks.size());
                EXPECT_NEAR(noise.sum / static_cast<double>(sum), 1.0, 1e-13);
            }
        }
    }
}

TEST(BatchNoise, WithoutAWorker) {
    const Gradients g = some(5, 700);
    const BatchNoise noise = batch_noise(g.rows, true);
    for (std::size_t w = 0; w < 5; ++w) {
        long double sum = 0, log2 = 0;
        for (std::size_t b = 0; b < noise.blocks.size(); ++b) {
            const long double left = noise_at(g, b * noise_block, true, w);
            sum += left;
            log2 += std::log2(left / noise_at(g, b * noise_block, true));
        }
        EXPECT_NEAR(noise.sum_without[w] / static_cast<double>(sum), 1.0, 1e-12);
        EXPECT_NEAR(noise.log2_without[w], static_cast<double>(log2), 1e-10);
    }
    EXPECT_TRUE(batch_noise(some(2, 40).rows, true).sum_without.empty());
    EXPECT_TRUE(batch_noise(some(1, 40).rows, true).blocks.empty());
}

TEST(BatchNoise, ABlockThatOneWorkerTouchesIsLone) {
    Gradients g = some(4, 64);
    const double all = batch_noise(g.rows, true).log2_without[0];
    for (std::size_t w = 1; w < 4; ++w) std::fill_n(g.held[w].begin(), 32, 0.0f);
    const BatchNoise noise = batch_noise(g.rows, true);
    EXPECT_GT(noise.blocks[0], 0.0);
    EXPECT_EQ(noise.noisy_blocks, 2u);
    EXPECT_EQ(noise.lone_blocks, 1u);
    const std::vector<std::vector<float>> second{{g.held[0].begin() + 32, g.held[0].end()},
                                                 {g.held[1].begin() + 32, g.held[1].end()},
                                                 {g.held[2].begin() + 32, g.held[2].end()},
                                                 {g.held[3].begin() + 32, g.held[3].end()}};
    const std::vector<std::span<const float>> rows(second.begin(), second.end());
    EXPECT_EQ(noise.log2_without, batch_noise(rows, true).log2_without);
    EXPECT_NE(noise.log2_without[0], all);
}

TEST(BatchNoise, ElementsThatAreNotFiniteHaveNone) {
    Gradients g = some(3, 32);
    const double before = batch_noise(g.rows, true).sum;
    g.held[1][5] = std::numeric_limits<float>::infinity();
    g.held[2][9] = std::numeric_limits<float>::quiet_NaN();
    const double after = batch_noise(g.rows, true).sum;
    EXPECT_TRUE(std::isfinite(after));
    EXPECT_LT(after, before);
}

TEST(OverNoise, IsTheSumOfLogarithms) {
    std::mt19937_64 random(5);
    std::vector<double> x(4096), y(4096), noise(noise_blocks_a_sum);
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = std::ldexp(static_cast<double>(random() >> 40), -30);
        y[i] = i / 32 == 7 ? x[i]
                           : x[i] + std::ldexp(static_cast<double>(random() >> 40),
                                               -40 - static_cast<int>(i / 32) % 50);
    }
    for (std::size_t b = 0; b < noise.size(); ++b)
        noise[b] = b == 3 ? 0.0 : std::ldexp(1.5, -static_cast<int>(b) / 2);
    double expected = 0;
    for (std::size_t b = 0; b < noise.size(); ++b) {
        double squares = 0;
        for (std::size_t i = b * 32; i < b * 32 + 32; ++i) squares += (y[i] - x[i]) * (y[i] - x[i]);
        if (b != 3) expected += std::log2(std::max(squares / noise[b], 0x1p-30));
    }
    std::vector<double> of_level;
    const SimdLevel before = simd_level();
    for (const SimdLevel level :
         {SimdLevel::portable, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
        if (level > best_simd_level()) continue;
        set_simd_level(level);
        OverNoise sum;
        sum.add(x, y, noise);
        EXPECT_EQ(sum.blocks, 127u);
        EXPECT_NEAR(sum.sum_log2, expected, 1e-9);
        of_level.push_back(sum.sum_log2);
    }
    set_simd_level(before);
    for (const double v : of_level) EXPECT_EQ(v, of_level[0]);
    OverNoise lost, zeros;
    lost.add_lost(x, noise);
    zeros.add(x, std::vector<double>(x.size(), 0.0), noise);
    EXPECT_EQ(lost.sum_log2, zeros.sum_log2);
}

TEST(FixedExp2, IsThatOfLibm) {
    std::mt19937_64 random(7);
    for (int i = 0; i < 100000; ++i) {
        const double x = std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())),
                                    -54);  // -512 to 512
        EXPECT_NEAR(fixed_exp2(x) / std::exp2(x), 1.0, 4e-16 * std::max(1.0, std::abs(x)));
    }
    for (int k = -40; k <= 40; ++k) EXPECT_EQ(fixed_exp2(k), std::ldexp(1.0, k));
    EXPECT_EQ(fixed_exp2(std::numeric_limits<double>::infinity()),
              std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isnan(fixed_exp2(std::numeric_limits<double>::quiet_NaN())));
}

}  // namespace
}  // namespace apscope::detail
