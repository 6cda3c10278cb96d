// Rows of exchanges with schemes written in this file: how the moments of a sum are computed.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "analysis/replay/tensor_rows.h"

using namespace apscope;
using namespace apscope::detail;

namespace {

constexpr int workers = 3;
constexpr std::size_t n = 400;

// A scheme that sends twice the value x or 0, by a coin per element: its bias is 0 and its variance
// x^2.
SchemeParts coins(bool shared) {
    SchemeParts scheme;
    scheme.encoding.draws = true;
    if (shared) scheme.choice.draw = [](const TrainingStep&, Parameters&, std::size_t) {};
    scheme.encoding.encode = [shared](const RowPiece& p, Message& m) {
        const RandomStream stream = shared ? p.step.shared_stream(1) : p.stream(1);
        m.prepare(p.x.size(), false, true);
        for (std::size_t i = 0; i < p.x.size(); ++i) {
            m.values[i] = stream.at(i) != 0 ? 2 * p.x[i] : 0.0;
            m.bias[i] = 0.0;
            m.variance[i] = p.x[i] * p.x[i];
        }
    };
    return scheme;
}

// The rows if every worker has the same `n` ones: the wire, the exact sum and the gathered sum.
std::vector<ResultRow> rows_of(const SchemeParts& scheme, int draws) {
    const std::vector<float> ones(n, 1.0f);
    const std::vector<std::span<const float>> gradients(workers, ones);
    ItemContext item;
    item.tensor = "x";
    item.seed = 7;
    item.draws = draws;
    item.gradients = gradients;
    TrainingStep step;
    step.workers = workers;
    step.key = item.key(0);
    State state;
    BlockBuffers buffers(item.workers());
    return tensor_rows(scheme, step, state, item, buffers);
}

}  // namespace

TEST(TensorRows, VariancesOfIndependentDrawsAddUp) {
    const std::vector<ResultRow> rows = rows_of(coins(false), 1);
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_EQ(rows[0].expected_variance, 1.0);
    EXPECT_EQ(rows[1].expected_variance, double{workers});
    EXPECT_TRUE(std::isnan(rows[2].expected_variance));  // added in fp32
}

TEST(TensorRows, SharedDrawsMoveASumTogether) {
    EXPECT_EQ(rows_of(coins(true), 1)[0].expected_variance, 1.0);
    EXPECT_TRUE(std::isnan(rows_of(coins(true), 1)[1].expected_variance));
    // Sampled: with one coin for all workers, the terms are equal and the variance of the sum is
    // W^2.
    const std::vector<ResultRow> rows = rows_of(coins(true), 16);
    for (const std::size_t r : {std::size_t{1}, std::size_t{2}})
        EXPECT_NEAR(rows[r].expected_variance, workers * workers, 0.25) << r;
}
