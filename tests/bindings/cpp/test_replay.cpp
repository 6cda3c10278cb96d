// Traces and replays through the public headers: the contents of a trace, rows that agree with the
// summary, selections, and calls that are refused.
#include <apscope/apscope.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace apscope;

Trace digits() { return open_trace(APSCOPE_ROOT "/notebooks/data/digits"); }

TEST(CppTrace, SaysWhatItHolds) {
    const Trace trace = digits();
    EXPECT_EQ(trace.name(), "digits");
    EXPECT_EQ(trace.stage(), "local");
    ASSERT_FALSE(trace.steps().empty());
    const TraceTensor tensor = trace.tensors().front();
    TraceValues values;
    {
        const Trace copy = trace;
        values = copy.read(trace.steps().front(), tensor.name, 0);
    }
    EXPECT_EQ(values.shape, tensor.shape);
    std::size_t size = 1;
    for (const std::int64_t length : tensor.shape) size *= static_cast<std::size_t>(length);
    EXPECT_EQ(values.values.size(), size);
    EXPECT_TRUE(std::ranges::any_of(values.values, [](float x) { return x != 0; }));
    EXPECT_THROW((void)trace.read(-1, tensor.name, 0), std::invalid_argument);
    EXPECT_THROW((void)trace.read(trace.steps().front(), tensor.name, 0, "colour"),
                 std::invalid_argument);
    EXPECT_THROW((void)open_trace(APSCOPE_ROOT "/docs"), std::invalid_argument);
}

TEST(CppReplay, RowsAndColumns) {
    std::size_t last_done = 0, last_total = 1;
    ReplayOptions options{.topologies = {"ring", "tree", "ring"}, .end_step = 3, .threads = 1};
    options.progress = [&](std::size_t done, std::size_t total) {
        last_done = done, last_total = total;
    };
    const Results results =
        replay(digits(), {"none:e4m3", "aps:e4m3", "qsgd", "aps:e4m3"}, options);
    EXPECT_EQ(last_done, last_total);
    EXPECT_EQ(results.schemes(), (std::vector<std::string>{"none:e4m3", "aps:e4m3", "qsgd"}));
    EXPECT_EQ(results.topologies(), (std::vector<std::string>{"ring", "tree"}));
    // wire, exact, ring and tree of the two that sum in a format; wire, exact and gather of the
    // other
    EXPECT_EQ(results.size(), results.steps().size() * results.tensors().size() * (4 + 4 + 3));
    EXPECT_TRUE(std::ranges::all_of(results.steps(), [](std::int64_t step) { return step < 3; }));
    const std::vector<double> error = results.numbers("sum_squared_error"),
                              reference = results.numbers("sum_squared_reference"),
                              nmse = results.numbers("nmse");
    const std::vector<std::string_view> schemes = results.texts("scheme");
    for (std::size_t i = 0; i < results.size(); ++i) {
        ASSERT_EQ(results.text(i, "trace"), "digits");
        ASSERT_EQ(results.text(i, "scheme"), schemes[i]);
        if (reference[i] != 0) {
            ASSERT_EQ(nmse[i], error[i] / reference[i]);
        }
        ASSERT_EQ(results.number(i, "workers"), digits().workers());
    }
    for (const Column& column : Results::columns()) {
        const std::size_t length = column.kind == ColumnKind::text
                                       ? results.texts(column.name).size()
                                       : results.numbers(column.name).size();
        EXPECT_EQ(length, results.size()) << column.name;
    }
    EXPECT_THROW((void)results.number(0, "scheme"), std::invalid_argument);
    EXPECT_THROW((void)results.text(0, "nmse"), std::invalid_argument);
    EXPECT_THROW((void)results.numbers("colour"), std::invalid_argument);
    EXPECT_THROW((void)results.number(results.size(), "nmse"), std::out_of_range);
}

TEST(CppReplay, ShardsAreTheWholeInParts) {
    ReplayOptions options{.topologies = {"ring"}, .end_step = 2};
    const std::vector<double> whole = replay(digits(), {"aps:e4m3"}, options).numbers("sum_error");
    std::vector<double> parts;
    options.shards = 2;
    for (options.shard = 0; options.shard < 2; ++options.shard) {
        for (const double value : replay(digits(), {"aps:e4m3"}, options).numbers("sum_error"))
            parts.push_back(value);
    }
    std::vector<double> sorted = whole;
    std::ranges::sort(sorted);
    std::ranges::sort(parts);
    EXPECT_EQ(sorted, parts);
}

TEST(CppReplay, SummariesRank) {
    const std::vector<SummaryRow> rows =
        replay(digits(), {"none:e4m3", "none:fp32", "hybrid(last=qsgd;else=none:e4m3)"},
               {.topologies = {"ring"}, .end_step = 3})
            .summary();
    ASSERT_EQ(rows.size(), 6u);
    EXPECT_EQ(rows.front().scheme, "none:fp32");
    for (std::size_t i = 1; i < rows.size(); ++i) {
        if (i == 3) continue;  // real topologies come first, then `exact`
        EXPECT_LE(rows[i - 1].step_nmse, rows[i].step_nmse);
    }
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].topology == "exact", i >= 3);
    for (const SummaryRow& row : rows) {
        EXPECT_TRUE(row.topology == "ring" || row.topology == "exact")
            << row.topology;  // also for the policy, although its last layer gathers
        EXPECT_GE(row.worst_nmse, row.step_nmse);
        EXPECT_FALSE(row.worst_layer.empty());
        EXPECT_GT(row.layer_cosine, 0.0);
        EXPECT_LE(row.layer_cosine, 1.0);
    }
}

TEST(CppReplay, ComparesPoolsAndModels) {
    const Results results = replay(
        digits(), {"none:e4m3", "none:fp32", "hybrid(last=qsgd;first=sign_vote;else=none:e4m3)"},
        {.topologies = {"ring"}, .end_step = 3});
    const std::vector<ComparisonRow> rows = results.compare("none:fp32", "none:e4m3");
    ASSERT_EQ(rows.size(), 1 + results.tensors().size());
    EXPECT_TRUE(rows[0].whole);
    EXPECT_EQ(rows[0].steps, rows[0].wins);
    EXPECT_EQ(rows[0].a.topology, "ring");
    EXPECT_LT(rows[0].worst_ratio, 1);
    EXPECT_EQ(rows[1].layer, results.tensors()[0]);
    EXPECT_EQ(results.compare("none:fp32", "none:e4m3", "wire")[0].b.topology, "wire");
    const std::vector<ComparisonRow> sides = results.compare("none:e4m3@exact", "none:e4m3@ring");
    EXPECT_EQ(sides[0].a.topology, "exact");
    EXPECT_EQ(sides[0].b.topology, "ring");
    EXPECT_EQ(results.compare("none:e4m3@exact", "none:fp32", "ring")[0].b.topology, "ring");
    EXPECT_EQ(results.compare("none:e4m3@exact", "none:fp32")[0].b.topology, "exact");
    EXPECT_THROW((void)results.compare("none:fp32", "aps:e4m3"), std::invalid_argument);
    EXPECT_THROW((void)results.compare("none:fp32", "none:e4m3", "tree"), std::invalid_argument);
    EXPECT_THROW((void)results.compare("none:fp32@tree", "none:e4m3"), std::invalid_argument);
    EXPECT_THROW((void)results.compare("none:fp32@wire", "none:e4m3@ring"), std::invalid_argument);

    const PooledTable pooled = results.pool({"scheme", "stage"});
    ASSERT_EQ(pooled.size(), 6u);
    EXPECT_EQ(pooled.groups[0], (std::vector<std::string>{"none:e4m3", "wire"}));
    EXPECT_EQ(pooled.number(0, "steps"), 3);
    EXPECT_THROW((void)pooled.number(0, "colour"), std::invalid_argument);
    EXPECT_THROW((void)pooled.number(6, "steps"), std::out_of_range);
    EXPECT_THROW((void)results.pool({"stage"}), std::invalid_argument);
    EXPECT_THROW((void)results.pool({"scheme", "colour"}), std::invalid_argument);

    const std::vector<StepTime> times = results.step_times({.elements = 1e6});
    ASSERT_EQ(times.size(), 6u);
    for (const StepTime& time : times)
        EXPECT_EQ(time.topology == "exact", std::isnan(time.seconds));
    EXPECT_THROW((void)results.step_times({.elements = -1.0}), std::invalid_argument);
    EXPECT_THROW((void)results.step_times({.side = "never"}), std::invalid_argument);
    EXPECT_THROW((void)results.summary({.batch_factor = 0}), std::invalid_argument);
    EXPECT_DOUBLE_EQ(results.summary({.batch_factor = 4})[0].error_over_noise,
                     4 * results.summary()[0].error_over_noise);
}

TEST(CppReplay, BreaksDownByPart) {
    const Results results =
        replay(digits(), {"none:e3m4", "aps:e3m4"}, {.topologies = {"ring"}, .end_step = 3});
    const std::vector<SummaryRow> whole = results.summary();
    for (const char* part : {"layer", "step"}) {
        const std::vector<BreakdownRow> rows = results.by(part);
        const std::size_t parts = rows.size() / 2;
        ASSERT_EQ(parts, part == std::string("layer") ? results.tensors().size() : 3u);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            EXPECT_EQ(rows[i].summary.scheme, whole[i / parts].scheme) << "in order of rank";
            EXPECT_EQ(rows[i].part, rows[i % parts].part);
            EXPECT_TRUE(std::isnan(rows[i].summary.time));
            EXPECT_LT(rows[i].summary.error_over_noise_low, rows[i].summary.error_over_noise_high);
        }
    }
    EXPECT_EQ(results.by("step", {.topology = "exact"})[0].summary.topology, "exact");
    EXPECT_THROW((void)results.by("tensor"), std::invalid_argument);
    EXPECT_THROW((void)results.by("layer", {.topology = "tree"}), std::invalid_argument);
    EXPECT_THROW((void)results.by("layer", {.batch_factor = 0}), std::invalid_argument);
}

TEST(CppReplay, SaysHowWellTheNoiseIsKnown) {
    const Results results =
        replay(digits(), {"none:e3m4"}, {.topologies = {"ring"}, .end_step = 3});
    const NoiseFacts all = results.noise_facts()[0];
    EXPECT_EQ(all.group, std::vector<std::string>{"digits"});
    EXPECT_EQ(all.workers, 8);
    EXPECT_EQ(all.steps, 3);
    const SummaryRow row = results.summary()[0];
    EXPECT_EQ(row.error_over_noise_low, row.error_over_noise * all.low);
    EXPECT_EQ(row.error_over_noise_high, row.error_over_noise * all.high);
    EXPECT_EQ(results.noise_facts({"step", "tensor"}).size(), 3 * results.tensors().size());
    EXPECT_THROW((void)results.noise_facts({"scheme"}), std::invalid_argument);
    EXPECT_THROW((void)results.noise_facts({"trace"}, -1), std::invalid_argument);
    const Results two = replay(digits(), {"none:e3m4"}, {.workers = 2, .end_step = 1});
    EXPECT_TRUE(std::isnan(two.summary()[0].error_over_noise_low)) << "too few workers";
    EXPECT_TRUE(
        replay(digits(), {"none:e3m4"}, {.workers = 1, .end_step = 1}).noise_facts().empty());
    EXPECT_TRUE(std::isnan(student_t(0.5)));
    EXPECT_NEAR(student_t(2), 4.302653, 1e-6);
    EXPECT_NEAR(student_t(1e9), 1.959964, 1e-6);
}

TEST(CppReplay, TheOptimizerIsTheGivenOneElseTheTraces) {
    const auto loss = [](std::optional<std::string> of_replay,
                         std::optional<std::string> of_summary) {
        const Results results = replay(
            digits(), {"aps:e3m0"},
            {.topologies = {"ring"}, .end_step = 3, .persistence = true, .optimizer = of_replay});
        return results.summary({.optimizer = of_summary})[0].update_loss[0].loss;
    };
    const double sgd = loss({}, "sgd"), adam = loss({}, "adam");
    EXPECT_NE(sgd, adam);
    EXPECT_EQ(loss({}, {}), sgd);  // the optimizer of the trace's metadata
    EXPECT_EQ(loss("adam", {}), adam);
    EXPECT_EQ(loss("adam", "sgd"), sgd);
}

TEST(CppReplay, ComparesTwoResults) {
    const ReplayOptions options{.topologies = {"ring"}, .end_step = 3};
    const Results first = replay(digits(), {"none:e4m3", "aps:e4m3"}, options);
    const Results second = replay(digits(), {"aps:e4m3", "qsgd"},
                                  {.topologies = {"ring"}, .first_step = 2, .end_step = 4});
    const std::vector<AgainstRow> rows = first.against(second);
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_EQ(rows[0].held_by, "first");
    EXPECT_FALSE(rows[0].compared);
    EXPECT_EQ(rows[1].held_by, "both");
    EXPECT_EQ(rows[1].compared->steps, 1) << "the step that both have";
    EXPECT_EQ(rows[1].compared->ties, 1);
    EXPECT_EQ(rows[2].scheme, "qsgd");
    EXPECT_EQ(rows[2].held_by, "second");
    const std::vector<ComparisonRow> mixed = first.compare("none:e4m3", "qsgd", second);
    EXPECT_EQ(mixed.size(), 1 + first.tensors().size());
    EXPECT_EQ(mixed[0].b.topology, "gather");
    const Results later = replay(digits(), {"aps:e4m3"}, {.first_step = 5, .end_step = 6});
    EXPECT_THROW((void)first.against(later), std::invalid_argument);
    EXPECT_THROW((void)first.compare("none:e4m3", "none:e4m3", second), std::invalid_argument);
}

TEST(CppReplay, OverflowHasNoFiniteError) {
    const Results results =
        replay(digits(), {"loss_scaling:e4m3,scale=128"}, {.topologies = {"ring"}, .end_step = 9});
    std::size_t overflowed = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
        const bool over = results.number(i, "overflow") > 0;
        overflowed += over;
        EXPECT_EQ(std::isinf(results.number(i, "nmse")), over);
        EXPECT_EQ(results.number(i, "sqnr_db") == -std::numeric_limits<double>::infinity(), over);
    }
    EXPECT_GT(overflowed, 0u);
    EXPECT_LT(overflowed, results.size());
    const SummaryRow ring = results.summary().front();
    EXPECT_GT(ring.overflowed, 0);
    EXPECT_TRUE(std::isinf(ring.nmse) && std::isinf(ring.worst_nmse) &&
                std::isfinite(ring.step_nmse));
}

TEST(CppReplay, WhatIsRefused) {
    const Trace trace = digits();
    EXPECT_THROW((void)replay(trace, {}), std::invalid_argument);
    EXPECT_THROW((void)replay(trace, {"magic"}), std::invalid_argument);
    EXPECT_THROW((void)replay(trace, {"aps:e4m3"}, {.topologies = {"star"}}),
                 std::invalid_argument);
    EXPECT_THROW((void)replay(trace, {"aps:e4m3"}, {.workers = 1000}), std::invalid_argument);
    EXPECT_THROW((void)replay(trace, {"aps:e4m3"}, {.first_step = 1 << 30}), std::invalid_argument);
    EXPECT_THROW((void)replay(trace, {"aps:e4m3"}, {.tensors = "no such tensor"}),
                 std::invalid_argument);
    EXPECT_THROW((void)replay(trace, {"aps:e4m3"}, {.tensors = "("}), std::invalid_argument);
    EXPECT_THROW((void)replay(trace, {"aps:e4m3"}, {.shard = 2, .shards = 2}),
                 std::invalid_argument);
    EXPECT_THROW((void)replay(trace, {"aps:e4m3"}, {.persistence = true, .optimizer = "adma"}),
                 std::invalid_argument);
    EXPECT_THROW((void)replay(trace, {"aps:e4m3"}, {.optimizer = "adam"}), std::invalid_argument);
}

}  // namespace
