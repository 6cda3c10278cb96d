// Replay end to end on a small trace: threads and shards give the same rows. Under the thread
// sanitizer (cmake --workflow --preset tsan) this test also finds data races.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "analysis/replay/replay.h"
#include "core/named_formats.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/cast/quantize.h"
#include "emulation/machine/parallel.h"
#include "emulation/schemes/definition.h"
#include "tests/support/result_numbers.h"
#include "tests/support/trace_files.h"

using namespace apscope;
using namespace apscope::detail;
using namespace apscope::detail::test;

namespace {

constexpr int workers = 3, steps = 4;
constexpr std::size_t n = 5000;  // two blocks, the second cut short

ReplayOptions options(int threads) {
    ReplayOptions o;
    for (std::size_t s = 0; s < steps; ++s) o.steps.push_back(s);
    o.tensors = {0, 1};
    o.workers = workers;
    for (const char* spec : {"aps:e4m3", "aps:e5m2,rounding=stochastic",
                             "dynamic_loss_scaling:fp16", "stochastic:e4m3", "qsgd:bucket=300"}) {
        o.schemes.push_back(parse_scheme(spec));
    }
    for (const char* name : {"ring", "tree", "sequential+kahan"})
        o.topologies.push_back(parse_topology(name));
    o.threads = threads;
    o.draws = 3;
    return o;
}

class ReplayTest : public ::testing::Test {
protected:
    void SetUp() override {
        write_trace(folder_.path() / "trace", workers, steps, {n, 2},
                    [](int step, int w, std::size_t k, std::size_t i) {
                        const std::size_t place = k * n + i;
                        return std::ldexp(static_cast<float>(std::sin(
                                              0.37 * static_cast<double>(place) + w + step)),
                                          -static_cast<int>(place % 24));
                    });
    }
    Trace trace() const { return Trace::open(folder_.path() / "trace"); }
    TemporaryFolder folder_;
};

}  // namespace

TEST_F(ReplayTest, ThreadsGiveTheSameRows) {
    const Trace t = trace();
    const ReplayResult one = replay(t, options(1)), many = replay(t, options(4));
    // 4 steps x 2 tensors x (2 summing schemes x (wire, exact, 3 orders), the dynamic loss scale
    // with a wire for each of exact and 3 orders, 2 gathering x (wire, exact, gather))
    ASSERT_EQ(one.rows.size(), 8u * (2 * 5 + 2 * 4 + 2 * 3));
    expect_same(many.rows, one.rows, "by four threads");
}

TEST_F(ReplayTest, ShardsAreThePartsOfTheWhole) {
    const Trace t = trace();
    const ReplayResult whole = replay(t, options(2));
    std::multiset<std::vector<std::uint64_t>> expected, got;
    for (const ResultRow& row : whole.rows) expected.insert(numbers(row));
    for (std::size_t shard = 0; shard < 3; ++shard) {
        ReplayOptions o = options(2);
        o.shard = shard;
        o.shards = 3;
        for (const ResultRow& row : replay(t, o).rows) got.insert(numbers(row));
    }
    EXPECT_EQ(got, expected);
}

TEST_F(ReplayTest, StatisticsReadInPartsServeAsThoseReadHere) {
    const Trace t = trace();
    ReplayOptions o = options(2);
    o.schemes.push_back(parse_scheme("delayed_scaling:e4m3"));
    const ReplayResult whole = replay(t, o);
    for (const std::size_t shards : {1, 3}) {
        std::multiset<std::vector<std::uint64_t>> expected, got;
        for (const ResultRow& row : whole.rows) expected.insert(numbers(row));
        std::vector<ItemHistogram> histograms;
        for (o.shard = 0, o.shards = shards; o.shard < shards; ++o.shard) {
            std::vector<AgreedStatistics> all(steps * 2);
            for (const std::vector<std::size_t>& pairs :
                 {std::vector<std::size_t>{1, 6, 7}, {0, 2, 3, 4, 5}, {}}) {
                std::size_t visited = 0;
                ReplayOptions part = o;
                part.progress = [&](std::size_t done, std::size_t) { visited = done; };
                SelectionStatistics found = read_statistics(t, part, pairs);
                ASSERT_EQ(found.agreed.size(), pairs.size());
                std::size_t values = 0;
                for (std::size_t i = 0; i < pairs.size(); ++i) {
                    all[pairs[i]] = found.agreed[i];
                    values += (pairs[i] % 2 == 0 ? n : 2) * workers;
                }
                EXPECT_EQ(visited, values);
                for (const ItemHistogram& h : found.histograms) {
                    EXPECT_EQ((h.step_index * 2 + h.tensor_index) % shards, o.shard);
                    histograms.push_back(h);
                }
            }
            ReplayOptions rest = o;
            rest.statistics = all;
            const ReplayResult found = replay(t, rest);
            EXPECT_TRUE(found.histograms.empty());
            for (const ResultRow& row : found.rows) got.insert(numbers(row));
        }
        EXPECT_EQ(got, expected);
        ASSERT_EQ(histograms.size(), whole.histograms.size());
        const auto place = [](const ItemHistogram& h) { return h.step_index * 2 + h.tensor_index; };
        std::sort(
            histograms.begin(), histograms.end(),
            [&](const ItemHistogram& a, const ItemHistogram& b) { return place(a) < place(b); });
        for (std::size_t i = 0; i < histograms.size(); ++i) {
            EXPECT_EQ(place(histograms[i]), place(whole.histograms[i]));
            for (int e = ExponentHistogram::min_exponent; e <= ExponentHistogram::max_exponent;
                 ++e) {
                EXPECT_EQ(histograms[i].histogram.count(e), whole.histograms[i].histogram.count(e));
            }
        }
    }
}

TEST_F(ReplayTest, StatisticsOfPairsThatAreNoneAreRefused) {
    const Trace t = trace();
    for (const std::vector<std::size_t>& pairs : {std::vector<std::size_t>{8}, {3, 2}, {4, 4}}) {
        EXPECT_THROW(read_statistics(t, options(1), pairs), std::invalid_argument);
    }
    ReplayOptions o = options(1);
    o.statistics.emplace(7);
    EXPECT_THROW(replay(t, o), std::invalid_argument);
}

TEST_F(ReplayTest, ProgressEndsAtItsTotalAndMayStopTheReplay) {
    ReplayOptions o = options(2);
    std::size_t last = 0, total = 0;
    o.progress = [&](std::size_t done, std::size_t all) {
        EXPECT_GE(done, last);
        EXPECT_LE(done, all);
        last = done;
        total = all;
    };
    replay(trace(), o);
    EXPECT_GT(total, 0u);
    EXPECT_EQ(last, total);
    o.progress = [](std::size_t, std::size_t) { throw std::runtime_error("stopped"); };
    EXPECT_THROW(replay(trace(), o), std::runtime_error);
}

TEST(ParallelFor, RunsEveryItemOnceAndPassesErrorsOn) {
    for (const int threads : {1, 2, 7}) {
        std::vector<std::atomic<int>> runs(1000);
        parallel_for(runs.size(), threads, [&](std::size_t i) { ++runs[i]; });
        for (const auto& r : runs) EXPECT_EQ(r.load(), 1);
        EXPECT_THROW(parallel_for(100, threads,
                                  [](std::size_t i) {
                                      if (i == 50) throw std::runtime_error("fifty");
                                  }),
                     std::runtime_error);
    }
    parallel_for(0, 4, [](std::size_t) { FAIL(); });
}

TEST(ParallelArrays, ThreadsGiveTheSameBits) {
    std::vector<float> in(300'000), one(in.size()), many(in.size());
    for (std::size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<float>(std::sin(static_cast<double>(i)));
    const Projection drawn{RoundingMode::stochastic, Overflow::ieee, 11};
    quantize(in, one, parse_format("e4m3"), drawn, {5, 0, {}}, 1);
    quantize(in, many, parse_format("e4m3"), drawn, {5, 0, {}}, 4);
    EXPECT_EQ(one, many);
    std::vector<double> sum_one(in.size() / 4), sum_many(in.size() / 4);
    AllReduceOptions o;
    o.topology = parse_topology("ring");
    o.projection = drawn;
    all_reduce(in, 4, sum_one, parse_format("e4m3"), o);
    o.threads = 4;
    all_reduce(in, 4, sum_many, parse_format("e4m3"), o);
    EXPECT_EQ(sum_one, sum_many);
}
