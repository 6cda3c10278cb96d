#include "bindings/cpp/apscope/exchange.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/held.h"
#include "bindings/cpp/source/made_schemes.h"
#include "bindings/cpp/source/memory_rows.h"
#include "bindings/cpp/source/training.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "core/sizes.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/exchange_run.h"
#include "emulation/schemes/step_exchange.h"
#include "emulation/schemes/two_phase.h"

namespace apscope {
namespace {

void check(std::string_view scheme, const std::vector<std::string>& needs,
           std::span<const std::span<const float>> gradients, const ExchangeInputs& inputs) {
    if (gradients.empty()) throw error("there are no workers; give a row for each");
    const std::size_t size = gradients[0].size();
    const auto same = [&](std::string_view what, std::span<const float> row) {
        if (row.size() != size)
            throw error(std::string(what) + " has " + std::to_string(row.size()) +
                        " elements, the first gradient " + std::to_string(size));
    };
    for (const std::span<const float> row : gradients) same("a gradient", row);
    for (const std::string& what : needs) {
        const bool missing = what == "loss" ? inputs.loss != inputs.loss
                             : what == "learning_rate"
                                 ? inputs.learning_rate != inputs.learning_rate
                             : what == "weights" ? inputs.weights.empty() && size > 0
                                                 : inputs.full_batch.empty() && size > 0;
        if (missing)
            throw error("scheme '" + std::string(scheme) + "' needs " + what +
                        "; give it in the inputs");
    }
    if (!inputs.weights.empty()) same("weights", inputs.weights);
    if (!inputs.full_batch.empty()) same("full_batch", inputs.full_batch);
}

}  // namespace

ExchangeResult exchange(std::string_view scheme, std::span<const std::span<const float>> gradients,
                        const ExchangeInputs& inputs, Memory& memory) try {
    const detail::FloatEnvironment environment;
    const detail::Topology topology = detail::parse_topology(inputs.topology);
    const auto parsed = detail::reduced_by(
        topology, std::make_shared<const detail::Scheme>(parse_any_scheme(scheme)));
    const detail::SchemeParts& parts = parsed->own_parts();
    check(parsed->spec, parts.needs, gradients, inputs);
    detail::TrainingStep step;
    step.tensor = inputs.tensor;
    step.role = inputs.role;
    step.shape = inputs.shape;
    if (step.shape.empty()) step.shape = {static_cast<std::int64_t>(gradients[0].size())};
    const std::size_t elements = detail::checked_size(std::span<const std::int64_t>(step.shape));
    if (elements != gradients[0].size())
        throw error("the shape has " + std::to_string(elements) + " elements, a gradient " +
                    std::to_string(gradients[0].size()));
    step.number = inputs.step;
    step.index = inputs.index;
    step.workers = static_cast<int>(gradients.size());
    step.key = detail::replay_key(inputs.seed, inputs.tensor, inputs.step);
    step.loss = inputs.loss;
    step.learning_rate = inputs.learning_rate;
    step.weights = inputs.weights;
    step.full_batch = inputs.full_batch;
    step.packs = inputs.packs;
    detail::State state = state_of(memory);
    detail::Exchange e = detail::exchange(parts, step, state, gradients, std::span(&topology, 1));
    memory = memory_of(std::move(state).rows());

    ExchangeResult result;
    bool has_moments = true;
    for (detail::Message& m : e.sent) {
        result.sent.push_back(plain(m.values));
        has_moments = has_moments && !m.variance.empty();
        result.bias.push_back(plain(m.bias));
        result.variance.push_back(plain(m.variance));
        result.payload.push_back(std::move(m.payload));
        result.payload_bits.push_back(m.payload_bits);
        result.side_bits.push_back(m.side_bits);
    }
    if (!has_moments) {
        result.bias.clear();
        result.variance.clear();
    }
    for (const detail::Row& row : e.intended) result.intended.push_back(plain(row));
    result.reduced = plain(e.reduced.at(0));
    result.reduction = parts.encoding.crosses_topologies() ? topology.name() : parts.topology;
    result.scale_exponent = e.scale_exponent;
    result.skipped = e.skipped;
    return result;
} catch (...) {
    detail::throw_error();
}

struct TrainingExchange::Data {
    detail::StepExchange exchange;
};

TrainingExchange::TrainingExchange(std::string_view scheme, std::vector<TrainedTensor> tensors,
                                   int workers, std::string_view topology, std::uint64_t seed,
                                   bool divide) try {
    const detail::FloatEnvironment environment;
    data_ = std::make_unique<Data>(
        Data{detail::StepExchange(parse_any_scheme(scheme), step_tensors(std::move(tensors)),
                                  workers, detail::parse_topology(topology), seed, divide)});
} catch (...) {
    detail::throw_error();
}
TrainingExchange::~TrainingExchange() = default;
TrainingExchange::TrainingExchange(TrainingExchange&&) noexcept = default;
TrainingExchange& TrainingExchange::operator=(TrainingExchange&&) noexcept = default;

TrainingExchange::Data& TrainingExchange::data() const { return held(data_, "TrainingExchange"); }

std::vector<bool> TrainingExchange::run(const TrainedStep& step, int threads) try {
    const auto given = [](double x) { return std::isnan(x) ? std::nullopt : std::optional(x); };
    return data().exchange.run({step.step, static_cast<std::size_t>(step.step), step.gradients,
                                step.out, step.weights, given(step.loss),
                                given(step.learning_rate)},
                               threads);
} catch (...) {
    detail::throw_error();
}

std::map<std::string, Memory> TrainingExchange::memory() const {
    std::map<std::string, Memory> all;
    for (auto& [name, state] : data().exchange.states()) {
        Memory memory = memory_of(std::move(state).rows());
        if (!memory.empty()) all.emplace(name, std::move(memory));
    }
    return all;
}

void TrainingExchange::set_memory(const std::map<std::string, Memory>& memory) try {
    std::map<std::string, detail::State>& states = data().exchange.states();
    states.clear();
    for (const auto& [name, rows] : memory) states.emplace(name, state_of(rows));
} catch (...) {
    detail::throw_error();
}

}  // namespace apscope
