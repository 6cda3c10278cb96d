// The selected part of a trace, and the error messages about a selection.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "analysis/replay/selection.h"
#include "tests/support/trace_files.h"

namespace {

using namespace apscope::detail;
using test::message_of;
using Places = std::vector<std::size_t>;

Manifest trace() {
    Manifest manifest;
    manifest.name = "toy";
    for (const std::int64_t number : {0, 3, 7}) {
        StepInfo step;
        step.number = number;
        manifest.steps.push_back(step);
    }
    for (const char* name : {"conv1.weight", "conv1.bias", "fc.weight"}) {
        TensorInfo tensor;
        tensor.name = name;
        manifest.tensors.push_back(tensor);
    }
    return manifest;
}

TEST(Selection, StepsByRangeAndNumber) {
    EXPECT_EQ(steps_between(trace(), {}, {}), (Places{0, 1, 2}));
    EXPECT_EQ(steps_between(trace(), 1, {}), (Places{1, 2}));
    EXPECT_EQ(steps_between(trace(), {}, 7), (Places{0, 1}));
    EXPECT_EQ(steps_numbered(trace(), {7, 0}), (Places{2, 0}));
    EXPECT_EQ(message_of([] { steps_between(trace(), 4, 7); }),
              "no recorded step of trace 'toy' is in 4:7; it has 3 steps from 0 to 7");
    EXPECT_EQ(message_of([] { steps_numbered(trace(), {0, 2}); }),
              "trace 'toy' has no step 2; it has 3 steps from 0 to 7");
    Manifest empty = trace();
    empty.steps.clear();
    EXPECT_EQ(message_of([&] { steps_between(empty, {}, {}); }),
              "trace 'toy' has no complete step, so there is nothing to replay");
}

TEST(Selection, TensorsByExpression) {
    EXPECT_EQ(tensors_matching(trace(), ""), (Places{0, 1, 2}));
    EXPECT_EQ(tensors_matching(trace(), R"(\.weight$)"), (Places{0, 2}));
    EXPECT_EQ(message_of([] { tensors_matching(trace(), "fc.weigth"); }),
              "tensors 'fc.weigth' matches no name in trace 'toy'; did you mean fc.weight?");
    EXPECT_EQ(message_of([] { tensors_matching(trace(), "nothing at all like it"); }),
              "tensors 'nothing at all like it' matches no name in trace 'toy'; it has "
              "conv1.weight, conv1.bias, fc.weight");
    EXPECT_EQ(
        message_of([] { tensors_matching(trace(), "("); }).find("tensors '(' is not a regular"),
        0u);
}

TEST(Selection, Shards) {
    check_shard(1, 2);
    EXPECT_EQ(message_of([] { check_shard(2, 2); }),
              "shard 2/2 does not exist; shards count from 0 to N-1");
    EXPECT_EQ(message_of([] { check_shard(0, 0); }),
              "shard 0/0 does not exist; shards count from 0 to N-1");
}

}  // namespace
