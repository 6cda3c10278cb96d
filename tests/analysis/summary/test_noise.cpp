// The noise's intervals: quantiles, the bias of a logarithm, the jackknife computed by hand, and
// cases without an interval.
#include "analysis/summary/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "analysis/summary/intervals.h"

namespace {

using namespace apscope::detail;

TEST(Intervals, QuantilesAreThoseOfTables) {
    // Abramowitz and Stegun, table 26.10.
    EXPECT_NEAR(student_t(1), 12.706, 5e-4);
    EXPECT_NEAR(student_t(4), 2.776, 5e-4);
    EXPECT_NEAR(student_t(5), 2.571, 1e-3);
    EXPECT_NEAR(student_t(10), 2.228, 1e-3);
    EXPECT_NEAR(student_t(120), 1.980, 1e-3);
    EXPECT_NEAR(student_t(INFINITY), 1.960, 1e-3);
    EXPECT_TRUE(std::isnan(student_t(0.99)) && std::isnan(student_t(NAN)));
    for (double f = 1; f < 12; f += 0.25) EXPECT_GT(student_t(f), student_t(f + 0.25)) << f;
}

TEST(Intervals, BiasOfALogarithm) {
    constexpr double euler = 0.5772156649015329;
    EXPECT_NEAR(log_bias(2), -euler, 1e-11);                                // digamma(1) - log(1)
    EXPECT_NEAR(log_bias(1), -euler - std::log(4) - std::log(0.5), 1e-11);  // digamma(1/2)
    EXPECT_NEAR(log_bias(1e6), -1e-6, 1e-11);
    for (const double directions : {0.7, 5.0, 300.0}) {
        const double change = log_bias(6 * directions) - log_bias(7 * directions);
        EXPECT_NEAR(bias_of_log_variance(change, 8) / log_bias(7 * directions), 1, 1e-6);
    }
    EXPECT_EQ(bias_of_log_variance(0.0, 8), 0.0);
}

// Adds rows of one tensor: one with all workers, then one without each worker, with these noises
// and logs.
void add(NoiseTable& table, std::int64_t step, double noise, const std::vector<double>& left,
         const std::vector<double>& logs) {
    NoiseRow row;
    row.step = step;
    row.workers = static_cast<std::int64_t>(left.size());
    row.blocks = row.noise_blocks = 10;
    row.noise = noise;
    row.squared_reference = 4 * noise;
    table.rows.push_back(row);
    for (std::size_t w = 0; w < left.size(); ++w) {
        row.without = static_cast<std::int64_t>(w);
        row.noise = left[w];
        row.log2_ratio = logs[w];
        table.rows.push_back(row);
    }
}

Noise noise_of(const NoiseTable& table) {
    std::vector<const NoiseRow*> rows;
    for (const NoiseRow& row : table.rows) rows.push_back(&row);
    return Noise(rows);
}

TEST(Noise, TheJackknifeByHand) {
    NoiseTable table{{}, {"trace"}, {"layer"}, {""}};
    add(table, 3, 6.0, {4.0, 6.0, 12.0}, {1.0, 3.0, 5.0});
    // The ratio is 2, so the values are 12 / 4, 12 / 6 and 12 / 12: mean 2, and
    // (3 - 1) / 3 * (1 + 0 + 1) = 4 / 3 is their variance, of 2 degrees of freedom.
    const double half = student_t(2) * std::sqrt(4.0 / 3);
    const Interval pooled = noise_of(table).pooled({{3, 2.0}});
    EXPECT_EQ(pooled.low, std::fmax(3 * 2.0 - 2 * 2.0 - half, 0.0));
    EXPECT_DOUBLE_EQ(pooled.high, 2.0 + half);
    // Logs per block 0.1, 0.3, 0.5: their mean is above 0, so no bias is subtracted.
    const double spread = student_t(2) * std::sqrt(2.0 / 3 * 0.08);
    const Interval typical = noise_of(table).typical();
    EXPECT_NEAR(typical.low, std::exp2(-spread), 1e-12);
    EXPECT_NEAR(typical.high, std::exp2(spread), 1e-12);
}

TEST(Noise, WhatHasNoInterval) {
    NoiseTable two{{}, {"trace"}, {"layer"}, {""}};
    add(two, 0, 1.0, {1.0, 1.0}, {0.0, 0.0});
    EXPECT_TRUE(std::isnan(noise_of(two).typical().low) &&
                std::isnan(noise_of(two).pooled({{0, 1.0}}).high));
    NoiseTable three{{}, {"trace"}, {"layer"}, {""}};
    add(three, 0, 1.0, {1.0, 1.0, 0.0}, {0.0, 0.0, 0.0});
    EXPECT_TRUE(std::isnan(noise_of(three).pooled({{0, 1.0}}).high)) << "no noise is left";
    three.rows[3].noise = 1.0;
    EXPECT_FALSE(std::isnan(noise_of(three).pooled({{0, 1.0}}).high));
    EXPECT_TRUE(std::isnan(noise_of(three).pooled({{1, 1.0}}).high)) << "another step";
    EXPECT_TRUE(std::isnan(noise_of(three).pooled({{0, INFINITY}}).high));
    EXPECT_TRUE(std::isnan(noise_of(three).pooled({}).high));
    three.rows.pop_back();
    three.rows[0].lone_blocks = 10;
    EXPECT_TRUE(std::isnan(noise_of(three).typical().low)) << "all blocks are lone";
}

TEST(Noise, FactsOfGroups) {
    NoiseTable table{{}, {"trace"}, {"layer"}, {""}};
    add(table, 1, 1.0, {1.0, 1.0, 1.0}, {0.0, 0.0, 0.0});
    add(table, 0, 3.0, {3.0, 3.0, 3.0}, {0.0, 0.0, 0.0});
    const std::vector<NoiseBy> by{NoiseBy::step}, none;
    const NoiseFacts steps = noise_facts(table, by), all = noise_facts(table, none, 2.0);
    EXPECT_EQ(steps.first, (std::vector<std::uint32_t>{0, 4}));
    ASSERT_EQ(all.first.size(), 1u);
    EXPECT_EQ(all.figures("blocks", 0), 20);
    EXPECT_EQ(all.figures("steps", 0), 2);
    EXPECT_EQ(all.figures("noise_ratio", 0), 0.25 / 2);
    EXPECT_EQ(all.figures("noise_scale", 0), 4.0 / (16.0 - 4.0) / 2);
    for (NoiseRow& row : table.rows) row.noise = row.squared_reference = 0;
    const NoiseFacts zeros = noise_facts(table, none);
    EXPECT_TRUE(std::isnan(zeros.figures("noise_scale", 0))) << "0 over 0";
    EXPECT_THROW(parse_noise_by("scheme"), std::invalid_argument);
    EXPECT_EQ(table.cell(table.rows[4], NoiseBy::step), "0");
}

}  // namespace
