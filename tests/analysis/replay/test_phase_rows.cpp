// The fast path of two phases on float grids gives the rows of the composition that defines them,
// bit for bit: workers 1 to 64, lengths near a block's and not multiples of W, ordinary and
// subnormal numbers, numbers that overflow, infinities and NaNs, both signs of zero, other schemes
// in phase 2.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analysis/replay/tensor_rows.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/two_phase.h"
#include "tests/support/gradients.h"
#include "tests/support/result_numbers.h"

using namespace apscope;
using namespace apscope::detail;
using namespace apscope::detail::test;

namespace {

SchemeParts in_phases(const std::string& spec, const std::string& topology) {
    const auto scheme = std::make_shared<const Scheme>(parse_scheme(spec));
    return reduced_by(parse_topology(topology), scheme)->parts;
}

void expect_same(const SchemeParts& fast, std::size_t n, int workers, GradientKind kind,
                 const std::string& name) {
    std::vector<std::vector<float>> rows;
    std::vector<std::span<const float>> spans;
    for (int w = 0; w < workers; ++w)
        rows.push_back(gradients(n, 1000 * n + static_cast<std::uint64_t>(w), kind));
    for (const auto& row : rows) spans.emplace_back(row);
    ItemContext item;
    item.tensor = "x";
    item.divide = n % 2 == 0;
    item.seed = 7;
    item.gradients = spans;
    item.last_alone = true;
    const BatchNoise noise = batch_noise(spans, item.divide);
    item.noise = &noise;
    TrainingStep step;
    step.shape = {static_cast<std::int64_t>(n)};
    step.workers = workers;
    step.key = item.key(0);
    SchemeParts slow = fast;
    slow.encoding.float_phases = nullptr;
    BlockBuffers buffers(workers);
    State none, nothing;
    const std::vector<ResultRow> found = tensor_rows(fast, step, none, item, buffers);
    const std::vector<ResultRow> wanted = tensor_rows(slow, step, nothing, item, buffers);
    ASSERT_EQ(found.size(), 2u) << name;
    test::expect_same(found, wanted, name);
}

class PhaseRows : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(PhaseRows, AreThoseOfTheComposition) {
    const auto& [spec, topology] = GetParam();
    const SchemeParts scheme = in_phases(spec, topology);
    ASSERT_TRUE(scheme.encoding.float_phases);
    const std::pair<std::size_t, int> sizes[] = {{0, 3},    {1, 2},    {7, 1},    {40, 64},
                                                 {101, 8},  {4096, 5}, {4097, 2}, {10000, 3},
                                                 {9001, 1}, {5000, 64}};
    for (const auto& [n, workers] : sizes)
        for (const GradientKind kind :
             {GradientKind::ordinary, GradientKind::subnormal, GradientKind::overflow,
              GradientKind::special, GradientKind::zeros})
            expect_same(scheme, n, workers, kind,
                        std::string(spec) + " " + topology + " of " + std::to_string(n) + ", " +
                            std::to_string(workers) + " workers, kind " +
                            std::to_string(static_cast<int>(kind)));
}

constexpr std::pair<const char*, const char*> cases[] = {
    {"none:fp32", "two_phase"},
    {"none:bf16", "two_phase"},
    {"none:e5m2", "two_phase"},
    {"none:e5m2", "reduce_scatter"},
    {"none:e4m3fn,overflow=saturate", "two_phase"},
    {"none:fp16,rounding=toward_negative", "two_phase"},
    {"none:e4m3,rounding=stochastic,random_bits=3", "two_phase"},
    {"aps:e5m2", "two_phase"},
    {"aps:e4m3fn,rule=tight", "two_phase"},
    {"aps:e3m4,rule=tight,overflow=saturate", "two_phase,phase2=(none:bf16)"},
    {"aps:e3m0noinf,rule=tight", "two_phase"},
    {"aps:e4m3,rounding=stochastic", "two_phase"},
    {"aps:e4m3,rounding=stochastic", "reduce_scatter"},
    {"aps:e2m1fn,headroom=one", "two_phase,phase2=(aps:e5m2,rule=tight)"},
    {"stochastic:e4m3fn", "two_phase"},
    {"stochastic:e3m4,overflow=saturate", "two_phase"},
    {"stochastic:e5m2", "two_phase,phase2=(none:fp16)"},
    {"loss_scaling:e4m3fn,scale=10", "two_phase"},
    {"loss_scaling:e5m2,scale=3,rounding=stochastic", "two_phase"},
};

INSTANTIATE_TEST_SUITE_P(Schemes, PhaseRows, testing::ValuesIn(cases), [](const auto& info) {
    std::string name = std::string(info.param.first) + "_" + info.param.second;
    for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    return name;
});

// Reductions that the fast path does not support use the composition.
TEST(PhaseRows, OthersHaveNoFastPath) {
    for (const auto& [spec, topology] : std::vector<std::pair<const char*, const char*>>{
             {"aps:e4m3", "two_phase,sum=exact"},
             {"aps:e4m3", "two_phase,sum=bf16"},
             {"aps:e4m3", "two_phase,own=exact"},
             {"aps:e4m3,unit=32", "two_phase"},
             {"aps:e4m3,delay=1", "two_phase"},
             {"aps:e4m3", "two_phase,phase2=(mx)"},
             {"none:bf16", "two_phase,phase2=(stochastic:e4m3fn)"},
             {"error_feedback(aps:e4m3)", "two_phase"},
             {"mx", "two_phase"}})
        EXPECT_FALSE(in_phases(spec, topology).encoding.float_phases) << spec << " " << topology;
    EXPECT_FALSE(parse_scheme("aps:e4m3").parts.encoding.float_phases);
}

}  // namespace
