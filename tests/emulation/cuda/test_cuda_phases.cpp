// A reduction in two phases by the steps of the GPU, run on the CPU, with the scales that a
// StepExchange chooses, gives the bits of the exchange on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "emulation/cuda/allreduce/phases_choice.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/float_encoder.h"
#include "emulation/schemes/step_exchange.h"
#include "tests/support/cuda_inputs.h"
#include "tests/support/gradients.h"

namespace apscope::detail {
namespace {

using namespace apscope::detail::test;

StepExchange exchange_of(const char* spec, const char* topology, std::int64_t n, int workers,
                         bool divide) {
    return StepExchange(parse_scheme(spec), {{"a", "other", {n}}, {"b", "other", {n}}}, workers,
                        parse_topology(topology), 11, divide);
}

std::vector<PhaseEncoding> encodings_of(const PhasedReduction& r) {
    std::vector<PhaseEncoding> all;
    for (const double scale : r.scales) {
        const FloatGrid& grid = r.scheme->parts.encoding.float_encoder->grid;
        all.push_back({grid.format, grid.projection, scale});
    }
    return all;
}

AgreedStatistics statistics_of(std::span<const float> row) {
    return agreed_statistics(std::span(&row, 1));
}

// The second tensor's results by steps.
std::vector<float> by_steps(const StepExchange& exchange, const std::vector<float>& rows,
                            std::size_t n, int workers, double divisor, std::int64_t number) {
    const auto w = static_cast<std::size_t>(workers);
    std::vector<AgreedStatistics> of_rows, of_sums;
    for (std::size_t i = 0; i < w; ++i)
        of_rows.push_back(statistics_of(std::span(rows).subspan(i * n, n)));
    const PhasedReduction messages = exchange.choose_in_phases(1, number, {{}, of_rows})[1];
    std::vector<float> sums(n, -1.0f), out(n, -1.0f);
    const auto run = [](const auto& step) { run_on_cpu(step); };
    with_message_steps(rows.data(), n, encodings_of(messages), messages.key, sums.data(), run);
    for (std::size_t s = 0; s < w; ++s) {
        const Shard shard = shard_of(s, n, w);
        of_sums.push_back(statistics_of(std::span(sums).subspan(shard.first, shard.count)));
    }
    const PhasedReduction shards = exchange.choose_in_phases(2, number, {{}, of_sums})[1];
    with_sum_steps(sums.data(), n, workers, encodings_of(shards), shards.key, divisor, out.data(),
                   run);
    return out;
}

void expect_same(const char* spec, const char* topology, std::size_t n, int workers,
                 GradientKind kind) {
    const bool divide = n % 2 == 0;
    StepExchange exchange =
        exchange_of(spec, topology, static_cast<std::int64_t>(n), workers, divide);
    ASSERT_TRUE(exchange.chooses_in_phases()) << spec << " " << topology;
    std::vector<float> rows;
    for (int w = 0; w < workers; ++w) {
        const std::vector<float> row = gradients(n, 1000 * n + static_cast<std::uint64_t>(w), kind);
        rows.insert(rows.end(), row.begin(), row.end());
    }
    std::vector<std::span<const float>> given;
    for (std::size_t w = 0; w < static_cast<std::size_t>(workers); ++w)
        given.push_back(std::span(rows).subspan(w * n, n));
    std::vector<float> first(n), expected(n);
    StepGradients step;
    step.number = 5;
    step.gradients = {given, given};
    step.out = {first, expected};
    exchange.run(step, 1);
    const std::vector<float> found =
        by_steps(exchange, rows, n, workers, divide ? workers : 1.0, step.number);
    std::size_t differing = 0;
    for (std::size_t i = 0; i < n; ++i) {
        // NaNs of sums that are not encoded have any bits.
        const bool nan = topology == std::string("reduce_scatter") && expected[i] != expected[i] &&
                         found[i] != found[i];
        const bool same =
            std::bit_cast<std::uint32_t>(expected[i]) == std::bit_cast<std::uint32_t>(found[i]);
        differing += nan || same ? 0 : 1;
    }
    EXPECT_EQ(differing, 0u) << spec << " " << topology << " of " << n << ", " << workers
                             << " workers, kind " << static_cast<int>(kind);
}

TEST(CudaPhases, HaveTheBitsOfTheCpu) {
    const std::pair<const char*, const char*> cases[] = {
        {"none:fp32", "two_phase"},
        {"none:e5m2", "reduce_scatter"},
        {"none:e4m3fn,overflow=saturate", "two_phase"},
        {"none:e4m3,rounding=stochastic,random_bits=3", "two_phase"},
        {"none:e8m0fnu,overflow=saturate", "two_phase"},
        {"aps:e5m2", "two_phase"},
        {"aps:e4m3fn,rule=tight", "two_phase"},
        {"aps:e3m4,rule=tight,overflow=saturate", "two_phase,phase2=(none:bf16)"},
        {"aps:e4m3,rounding=stochastic", "two_phase"},
        {"aps:e2m1fn,headroom=one", "two_phase,phase2=(aps:e5m2,rule=tight)"},
        {"stochastic:e4m3fn", "two_phase"},
        {"loss_scaling:e4m3fn,scale=10", "two_phase"},
        {"loss_scaling:e5m2,scale=3,rounding=stochastic", "two_phase"},
        {"hybrid(last=none:fp16;else=aps:e4m3)", "two_phase"}};
    const std::pair<std::size_t, int> sizes[] = {{0, 3},   {1, 2},    {7, 1},   {40, 64},
                                                 {101, 8}, {4096, 5}, {9001, 3}};
    for (const auto& [spec, topology] : cases)
        for (const auto& [n, workers] : sizes)
            for (const GradientKind kind :
                 {GradientKind::ordinary, GradientKind::subnormal, GradientKind::overflow,
                  GradientKind::special, GradientKind::zeros})
                expect_same(spec, topology, n, workers, kind);
}

TEST(CudaPhases, OthersGoThroughTheCpu) {
    for (const auto& [spec, topology] : std::vector<std::pair<const char*, const char*>>{
             {"aps:e4m3", "ring"},
             {"aps:e4m3", "two_phase,sum=exact"},
             {"aps:e4m3,unit=32", "two_phase"},
             {"mx", "two_phase"},
             {"none:bf16", "two_phase,phase2=(stochastic:e4m3fn)"},
             {"error_feedback(aps:e4m3)", "two_phase"},
             {"hybrid(last=mx;else=aps:e4m3)", "two_phase"}}) {
        const StepExchange exchange = exchange_of(spec, topology, 8, 2, true);
        EXPECT_FALSE(exchange.chooses_in_phases()) << spec << " " << topology;
        EXPECT_THROW(exchange.choose_in_phases(1, 0, {{}, {}}), std::invalid_argument);
    }
    const StepExchange exchange = exchange_of("aps:e4m3", "two_phase", 8, 2, true);
    EXPECT_THROW(exchange.choose_in_phases(3, 0, {{}, {}}), std::invalid_argument);
    EXPECT_THROW(exchange.choose_in_phases(1, 0, {{}}), std::invalid_argument);
}

}  // namespace
}  // namespace apscope::detail
