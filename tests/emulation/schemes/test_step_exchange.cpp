// All tensors of a step at once, on any number of threads, over several steps: the bits are those
// of exchange() for each tensor. Schemes that a training loop cannot run are refused.
#include "emulation/schemes/step_exchange.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>

#include "core/bits.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/exchange_run.h"
#include "emulation/schemes/two_phase.h"
#include "tests/support/trace_files.h"

using namespace apscope;
using namespace apscope::detail;
using test::message_of;

namespace {

constexpr int workers = 3;
constexpr std::uint64_t seed = 11;

// Lengths near a block's and near a thread's share of a block.
const std::vector<StepTensor> tensors{{"embed", "embedding", {5, 60000}},
                                      {"norm", "norm", {1}},
                                      {"fc", "linear", {64, 64}},
                                      {"nothing", "other", {0}},
                                      {"head", "head", {4097}}};

struct Arrays {
    std::vector<std::vector<std::vector<float>>> gradients;  // tensor, worker
    std::vector<std::vector<float>> out;
    StepGradients step;

    explicit Arrays(std::int64_t number) {
        std::mt19937_64 random(static_cast<std::uint64_t>(number) + 1);
        std::normal_distribution<float> normal;
        step.number = number;
        step.index = static_cast<std::size_t>(number);
        for (const StepTensor& tensor : tensors) {
            gradients.emplace_back(workers, std::vector<float>(tensor.elements()));
            for (std::vector<float>& row : gradients.back())
                for (float& v : row)
                    v = std::ldexp(normal(random), -static_cast<int>(random() % 9));
            out.emplace_back(tensor.elements());
        }
        for (std::size_t k = 0; k < tensors.size(); ++k) {
            step.gradients.emplace_back(gradients[k].begin(), gradients[k].end());
            step.out.emplace_back(out[k]);
        }
    }
};

StepExchange make(const std::string& spec, const char* topology = "ring", int ranks = workers) {
    return {parse_scheme(spec), tensors, ranks, parse_topology(topology), seed, true};
}

class StepExchanges : public testing::TestWithParam<const char*> {};

TEST_P(StepExchanges, AreExchangesOfEachTensor) {
    const SchemeParts scheme = parse_scheme(GetParam()).parts;
    StepExchange alone = make(GetParam()), together = make(GetParam());
    std::vector<State> states(tensors.size());
    for (std::int64_t number = 0; number < 3; ++number) {
        Arrays a(number), b(number);
        alone.run(a.step, 1);
        together.run(b.step, 4);
        EXPECT_EQ(a.out, b.out) << "threads";
        for (std::size_t k = 0; k < tensors.size(); ++k) {
            TrainingStep step;
            step.tensor = tensors[k].name;
            step.role = tensors[k].role;
            step.shape = tensors[k].shape;
            step.number = number;
            step.index = a.step.index;
            step.workers = workers;
            step.key = replay_key(seed, tensors[k].name, number);
            const Topology ring = parse_topology("ring");
            const Exchange e =
                exchange(scheme, step, states[k], a.step.gradients[k], std::span(&ring, 1));
            for (std::size_t i = 0; i < a.out[k].size(); ++i) {
                const auto wanted = static_cast<float>(e.reduced.at(0)[i] / workers);
                ASSERT_EQ(bits_cast<std::uint32_t>(a.out[k][i]), bits_cast<std::uint32_t>(wanted))
                    << tensors[k].name << " " << i << " step " << number;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Schemes, StepExchanges,
                         testing::Values("none:fp32", "aps:e4m3", "aps:e3m4,rounding=stochastic",
                                         "aps:e4m3,unit=100", "stochastic:e5m2", "sign", "qsgd",
                                         "thc", "top_k", "error_feedback(aps:e3m0)",
                                         "onebit_adam:warmup=1"),
                         [](const auto& info) {
                             std::string name;
                             for (const char c : std::string(info.param))
                                 name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                             return name;
                         });

// Schemes on a float grid give the same bits on their fast path as by the composition that defines
// them.
TEST(StepExchange, InTwoPhasesIsTheComposition) {
    for (const auto& [spec, topology] :
         {std::pair{"none:e5m2", "two_phase"}, std::pair{"aps:e4m3,rule=tight", "two_phase"},
          std::pair{"aps:e3m4,rounding=stochastic", "two_phase"},
          std::pair{"loss_scaling:e4m3,scale=1e6", "reduce_scatter"},
          std::pair{"aps:e4m3", "two_phase,phase2=(none:bf16)"},
          std::pair{"aps:e4m3", "two_phase,sum=bf16"}}) {
        const auto scheme = reduced_by(parse_topology(topology),
                                       std::make_shared<const Scheme>(parse_scheme(spec)));
        EXPECT_EQ(scheme->parts.encoding.float_phases == nullptr,
                  std::string(topology) == "two_phase,sum=bf16");
        SchemeParts parts = scheme->parts;
        parts.encoding.float_phases = nullptr;
        Arrays a(5);
        for (auto& of_tensor : a.gradients)
            for (std::size_t w = 0; w < of_tensor.size(); ++w)
                for (std::size_t i = w; i < of_tensor[w].size(); i += 997)
                    of_tensor[w][i] = i % 2 == 0 ? std::nanf("") : i % 3 == 0 ? -0.0f : 3e38f;
        StepExchange exchanges = make(spec, topology);
        exchanges.run(a.step, 2);
        for (std::size_t k = 0; k < tensors.size(); ++k) {
            TrainingStep step;
            step.tensor = tensors[k].name;
            step.shape = tensors[k].shape;
            step.number = 5;
            step.workers = workers;
            step.key = replay_key(seed, tensors[k].name, 5);
            State none;
            const Topology order = parse_topology(topology);
            const Row wanted =
                exchange(parts, step, none, a.step.gradients[k], std::span(&order, 1)).reduced[0];
            for (std::size_t i = 0; i < wanted.size(); ++i) {
                const auto mean = static_cast<float>(wanted[i] / workers);
                const float found = a.out[k][i];
                ASSERT_EQ(std::isnan(found), std::isnan(mean)) << spec << " " << topology << i;
                if (std::isnan(mean)) continue;
                ASSERT_EQ(bits_cast<std::uint32_t>(found), bits_cast<std::uint32_t>(mean))
                    << spec << " " << topology << " " << tensors[k].name << " " << i;
            }
        }
    }
}

TEST(StepExchange, RefusesWhatATrainingLoopCannotGive) {
    EXPECT_NE(message_of([] { make("loss_scaling:e4m3,scale=largest"); }).find("in hindsight"),
              std::string::npos);
    EXPECT_EQ(message_of([] { make("sign", "ring", 0); }), "workers=0 must be at least 1");
    EXPECT_EQ(message_of([] {
                  StepExchange(parse_scheme("sign"), {tensors[0], tensors[0]}, 2, {}, 0, true);
              }),
              "two tensors have the name 'embed'; give different names, because a scheme keeps its "
              "memory by name");
    EXPECT_EQ(message_of([] {
                  Arrays a(0);
                  make("fractrain").run(a.step, 1);
              }),
              "scheme 'fractrain' needs loss; give it with every step");
    EXPECT_EQ(message_of([] {
                  Arrays a(0);
                  a.step.gradients[2].pop_back();
                  make("sign").run(a.step, 1);
              }),
              "the number of workers with gradients of 'fc' is 2, not 3");
    EXPECT_EQ(message_of([] {
                  Arrays a(0);
                  a.step.out[4] = a.step.out[4].first(7);
                  make("sign").run(a.step, 1);
              }),
              "the size of the result of 'head' is 7, not 4097");
}

}  // namespace
