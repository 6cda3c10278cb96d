// Schemes that send and add the same codes are computed once, on the CPU and on a device, and each
// has the same rows as in a replay without the others. Reductions in two phases take turns.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "analysis/replay/item_rows.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/two_phase.h"
#include "tests/support/host_queue.h"
#include "tests/support/result_numbers.h"

namespace apscope::detail {
namespace {

using namespace apscope::detail::test;

struct Asked {
    const char* spec;
    Decision decision;
};

Decision with_side_bits(int exponent, std::uint64_t bits) {
    Decision d = power_of_two(exponent);
    d.side_bits = bits;
    return d;
}

Decision skipped(int exponent) {
    Decision d = power_of_two(exponent);
    d.skipped = true;
    return d;
}

TEST(ItemRows, OfSchemesThatSendTheSameCodesAreWorkedOutOnce) {
    // The schemes of a line have the same sums. A device runs all lines except the last.
    const std::vector<std::vector<Asked>> lines{
        {{"aps:e4m3", power_of_two(5)},
         {"loss_scaling:e4m3,scale=32", power_of_two(5)},
         {"aps:e4m3,unit=model", with_side_bits(5, 0)}},
        {{"aps:e4m3", power_of_two(6)}},
        {{"aps:e4m3,accumulate=fp32", power_of_two(5)}},
        {{"aps:e4m3,overflow=saturate", power_of_two(5)}},
        {{"aps:e4m3,hop_rounding=toward_zero", power_of_two(5)}},
        {{"none:e5m2", scale_of(3.0)}, {"loss_scaling:e5m2,scale=3", scale_of(3.0)}},
        {{"none:e5m2", scale_of(5.0)}},
        {{"aps:e4m3,rounding=stochastic", power_of_two(5)},
         {"none:e4m3,rounding=stochastic", power_of_two(5)}},
        {{"aps:e4m3,rounding=stochastic,random_bits=5", power_of_two(5)}},
        {{"stochastic:e4m3", power_of_two(5)}, {"stochastic:e4m3", with_side_bits(5, 3)}},
        {{"dynamic_loss_scaling:e4m3", skipped(5)}, {"deepspeed_loss_scaling:e4m3", skipped(5)}},
    };
    const std::size_t runs = lines.size() - 1;
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    std::vector<std::vector<float>> held(3, std::vector<float>(5000));
    for (auto& row : held) {
        for (float& x : row) x = std::ldexp(normal(random), -static_cast<int>(random() % 16));
    }
    const std::vector<std::span<const float>> gradients(held.begin(), held.end());
    const std::vector<Topology> topologies{parse_topology("ring"), parse_topology("tree")};
    ItemContext item;
    item.tensor = "x";
    item.divide = true;
    item.draws = 3;
    item.topologies = topologies;
    item.gradients = gradients;
    BlockBuffers buffers(item.workers());

    std::vector<std::unique_ptr<Scheme>> schemes;
    std::vector<Streamed> streamed;
    for (std::size_t place = 0; place < 3; ++place) {  // neighbours differ in line
        for (const auto& line : lines) {
            if (place >= line.size()) continue;
            schemes.push_back(std::make_unique<Scheme>(parse_scheme(line[place].spec)));
            streamed.push_back({&schemes.back()->parts, &line[place].decision, topologies});
        }
    }
    CountedRows device(std::uint64_t{1} << 30);
    const auto here = streamed_rows(streamed, {}, item, buffers),
               there = streamed_rows(streamed, {}, item, buffers, &device);
    EXPECT_EQ(device.tasks(), runs);
    for (std::size_t s = 0; s < streamed.size(); ++s) {
        const auto alone = streamed_rows({&streamed[s], 1}, {}, item, buffers);
        for (const auto& found : {here[s], there[s]}) {
            expect_same(found, alone[0], schemes[s]->spec);
            const auto bits = static_cast<std::int64_t>(
                streamed[s].decision->side_bits.value_or(streamed[s].encoder().side_bits));
            for (const ResultRow& row : found) EXPECT_EQ(row.side_bits, bits);
        }
    }
}

TEST(ItemRows, OfReductionsInTwoPhasesTakeTheMemoryOfOne) {
    const auto scheme = reduced_by(parse_topology("two_phase"),
                                   std::make_shared<const Scheme>(parse_scheme("aps:e4m3")));
    const std::vector<float> row(std::size_t{1} << 18, 0.1f);
    const std::vector<std::span<const float>> gradients(2, row);
    ItemContext item;
    item.tensor = "x";
    item.gradients = gradients;
    TrainingStep step;
    step.shape = {static_cast<std::int64_t>(row.size())};
    step.workers = item.workers();
    step.key = item.key(0);
    const auto most = [&](std::size_t reductions) {
        BufferPool pool;
        const UsesBuffers uses(pool);
        BlockBuffers buffers(item.workers());
        const std::vector<Alone> phases(reductions, {&scheme->parts, step});
        streamed_rows({}, phases, item, buffers);
        return pool.most_used();
    };
    EXPECT_GT(most(1), row.size() / 2 * sizeof(float));  // the sum of a shard
    EXPECT_LT(most(4), most(1) + most(1) / 10);
}

}  // namespace
}  // namespace apscope::detail
