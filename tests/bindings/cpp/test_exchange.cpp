// Exchanges, schemes and modelled times through the public headers: memory from step to step, all
// tensors of a step, lists, and calls that are refused. tests/python compares exchanges with
// Python's.
#include <apscope/apscope.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace apscope;

std::vector<std::vector<float>> gradients(int workers, std::size_t size, int step) {
    std::vector<std::vector<float>> rows;
    for (int w = 0; w < workers; ++w) {
        std::vector<float>& row = rows.emplace_back(size);
        for (std::size_t i = 0; i < size; ++i)
            row[i] = std::sin(static_cast<float>(i * 7 + static_cast<std::size_t>(3 * w + step))) *
                     0x1p-6f;
    }
    return rows;
}

TEST(CppExchange, ErrorFeedbackRemembersWhatItDidNotSend) {
    Memory memory;
    std::vector<double> sent(100), all(100);
    ExchangeResult last;
    for (int step = 0; step < 5; ++step) {
        const auto rows = gradients(1, 100, step);
        const std::vector<std::span<const float>> spans(rows.begin(), rows.end());
        last = exchange("error_feedback(sign)", spans, {.step = step, .index = 0}, memory);
        for (std::size_t i = 0; i < 100; ++i) {
            sent[i] += last.sent[0][i];
            all[i] += rows[0][i];
        }
    }
    ASSERT_EQ(memory.size(), 1u);
    for (std::size_t i = 0; i < 100; ++i)
        EXPECT_NEAR(sent[i] + memory.begin()->second[i], all[i], 1e-12);
    EXPECT_EQ(last.reduction, "gather");
}

TEST(CppExchange, AllTensorsOfAStepAreExchangesOfEach) {
    const std::vector<TrainedTensor> tensors{{"a", "linear", {3, 50}}, {"b", "bias", {7}}};
    TrainingExchange all("error_feedback(aps:e3m0)", tensors, 4, "tree", 9);
    std::vector<Memory> memories(2);
    for (int step = 0; step < 3; ++step) {
        TrainedStep given;
        given.step = step;
        std::vector<std::vector<std::vector<float>>> rows;
        std::vector<std::vector<float>> out{std::vector<float>(150), std::vector<float>(7)};
        for (const std::size_t size : {std::size_t{150}, std::size_t{7}})
            rows.push_back(gradients(4, size, step));
        for (const auto& tensor : rows) given.gradients.emplace_back(tensor.begin(), tensor.end());
        for (std::vector<float>& row : out) given.out.emplace_back(row);
        if (step == 2) {  // another object continues with the memory of the first
            TrainingExchange next("error_feedback(aps:e3m0)", tensors, 4, "tree", 9);
            next.set_memory(all.memory());
            all = std::move(next);
        }
        EXPECT_EQ(all.run(given), (std::vector<bool>{false, false}));
        for (std::size_t k = 0; k < 2; ++k) {
            const ExchangeInputs inputs{.topology = "tree",
                                        .step = step,
                                        .index = static_cast<std::size_t>(step),
                                        .tensor = tensors[k].name,
                                        .role = tensors[k].role,
                                        .shape = tensors[k].shape,
                                        .seed = 9};
            const ExchangeResult e =
                exchange("error_feedback(aps:e3m0)", given.gradients[k], inputs, memories[k]);
            for (std::size_t i = 0; i < out[k].size(); ++i)
                ASSERT_EQ(out[k][i], static_cast<float>(e.reduced[i] / 4));
        }
    }
}

TEST(CppExchange, RefusesWhatCannotBe) {
    const auto rows = gradients(2, 10, 0);
    std::vector<std::span<const float>> spans(rows.begin(), rows.end());
    Memory memory;
    const auto error = [&](const char* spec, const ExchangeInputs& inputs = {}) {
        try {
            exchange(spec, spans, inputs, memory);
        } catch (const std::invalid_argument& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    EXPECT_NE(error("apss:e4m3").find("apss"), std::string::npos);
    EXPECT_NE(error("sign", {.topology = "star"}).find("star"), std::string::npos);
    EXPECT_NE(error("hybrid(else=sign)").find("policy"), std::string::npos);
    EXPECT_EQ(error("fractrain"), "scheme 'fractrain' needs loss; give it in the inputs");
    EXPECT_EQ(error("sign", {.shape = {3, 4}}), "the shape has 12 elements, a gradient 10");
    memory = {{"shift/x", {1, 2}}, {"run/x", {1, 1}}};
    EXPECT_EQ(error("aps:e4m3,unit=4,delay=1"),
              "the state has 2 shifts and 2 runs of 'x', which has 3 units");
    memory = {};
    spans[1] = spans[1].first(9);
    EXPECT_EQ(error("sign"), "a gradient has 9 elements, the first gradient 10");
    spans.clear();
    EXPECT_EQ(error("sign"), "there are no workers; give a row for each");
    EXPECT_THROW(TrainingExchange("loss_scaling:e4m3,scale=largest", {{"a", "other", {2}}}, 2),
                 std::invalid_argument);
}

TEST(CppSchemes, DefinitionsSpecsAndLists) {
    const std::vector<SchemeDefinition> all = scheme_definitions();
    const auto aps = std::ranges::find(all, "aps", &SchemeDefinition::name);
    ASSERT_NE(aps, all.end());
    EXPECT_TRUE(aps->takes_format);
    EXPECT_EQ(aps->family, "APS");
    EXPECT_TRUE(std::ranges::any_of(aps->keys, [](const SchemeKey& key) {
        return key.name == "headroom" && !key.meaning.empty();
    }));
    const Scheme s = scheme("aps:e4m3,headroom=workers,rounding=ties_to_even");
    EXPECT_EQ(s.spec, scheme(s.spec).spec);
    EXPECT_EQ(s.name, "aps");
    EXPECT_EQ(s.grid, "e4m3");
    EXPECT_TRUE(scheme("error_feedback(sign)").keeps_state);
    EXPECT_EQ(scheme("fractrain").needs, std::vector<std::string>{"loss"});
    EXPECT_THROW(scheme("nothing"), std::invalid_argument);
    const std::vector<std::string> most = all_schemes(), main = main_schemes();
    EXPECT_TRUE(std::equal(main.begin(), main.end(), most.begin()));
    for (const SchemeDefinition& d : all)
        EXPECT_TRUE(std::ranges::any_of(most, [&](const std::string& spec) {
            return scheme(spec).name == d.name;
        })) << d.name;
}

// A step that no condition can name has the branch `else`.
TEST(CppExchange, ABranchServesEveryStep) {
    for (const std::int64_t number : {std::numeric_limits<std::int64_t>::max(), std::int64_t{-1}}) {
        TrainingExchange exchange("hybrid(steps:0:9=none:e4m3;else=none:fp32)",
                                  {{"a", "linear", {1}}}, 1);
        const float gradient = 1.03125f;
        float out = 0;
        TrainedStep step;
        step.step = number;
        step.gradients = {{std::span(&gradient, 1)}};
        step.out = {std::span(&out, 1)};
        try {
            exchange.run(step);
            EXPECT_EQ(out, gradient) << number;
        } catch (const std::invalid_argument& refused) {
            EXPECT_NE(std::string(refused.what()).find(std::to_string(number)), std::string::npos);
        }
    }
}

TEST(CppCost, ARing) {
    // Section 12: 2 (W - 1) messages of b / W bytes.
    const CollectiveCost ring = collective("ring", 800.0, 8);
    EXPECT_EQ(ring.messages, 14);
    EXPECT_EQ(ring.bytes, 14 * 100.0);
    const Network network{.latency = 1e-6, .bandwidth = 1e9, .pass_cost = 0.0};
    EXPECT_DOUBLE_EQ(seconds(ring, network), 14e-6 + 1400e-9);
    EXPECT_EQ(collective("ring", 800.0, 1).bytes, 0);
    EXPECT_THROW((void)collective("star", 1.0, 2), std::invalid_argument);
    EXPECT_THROW((void)collective("ring", 1.0, 0), std::invalid_argument);
    constexpr int most = std::numeric_limits<int>::max();
    EXPECT_EQ(collective("hierarchical", 8.0, most, most - 1).messages, 2);  // between two nodes
}

TEST(CppCost, AnAllToAllOnNodes) {
    // Section 12: of 8 parts of 100 bytes, 4 leave the node of 4 workers; in a ring, each leaves it
    // once.
    const CollectiveCost flat = collective("shards", 800.0, 8, {}, {}, 0.0, 2);
    EXPECT_EQ(flat.messages, 4);
    EXPECT_EQ(flat.intra_messages, 3);
    EXPECT_EQ(flat.node_bytes, 4 * 400.0);
    EXPECT_EQ(flat.bytes, 400.0);
    const CollectiveCost ring = collective("ring", 800.0, 8, {}, {}, {}, 2);
    EXPECT_EQ(ring.node_bytes, 2 * 700.0);
    EXPECT_EQ(ring.messages + ring.intra_messages, 14);
    Network network{.latency = 0.0, .bandwidth = 1e9, .pass_cost = 0.0, .nodes = 2};
    EXPECT_DOUBLE_EQ(seconds(flat, network), 400e-9);
    network.interfaces = 1;
    EXPECT_DOUBLE_EQ(seconds(flat, network), 1600e-9);
    EXPECT_THROW((void)collective("ring", 1.0, 8, {}, {}, {}, 3), std::invalid_argument);
    EXPECT_THROW((void)collective("hierarchical", 1.0, 8, 2, {}, {}, 2), std::invalid_argument);
    EXPECT_EQ(network_of("nvlink4", "ethernet_25", 2).interfaces, 1);
    EXPECT_THROW((void)network_of("nvlink4", "token_ring"), std::invalid_argument);
}

TEST(CppExchange, BitCenteringOfATensorWithoutElements) {
    const std::vector<std::span<const float>> none(2);
    Memory memory;
    for (int step = 0; step < 3; ++step)
        EXPECT_TRUE(exchange("bit_centering", none, {.step = step}, memory).reduced.empty());
}

}  // namespace
