#include "emulation/schemes/step_exchange.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/fixed_shape_sum.h"
#include "core/float_environment.h"
#include "core/sizes.h"
#include "emulation/machine/parallel.h"
#include "emulation/schemes/exchange_run.h"
#include "emulation/schemes/float_exchange.h"
#include "emulation/schemes/float_phases.h"
#include "emulation/schemes/lookahead.h"
#include "emulation/schemes/shared/buckets.h"
#include "emulation/schemes/two_phase.h"

namespace apscope::detail {

namespace {

// The number of elements per task if the scheme streams: a multiple of sum_block.
constexpr std::size_t chunk = 64 * sum_block;

// Calls work() for a scheme and, if it is a policy, for the schemes of its branches.
void for_schemes(const Scheme& scheme, const auto& work) {
    work(scheme);
    for (const PolicyBranch& branch : scheme.policy.branches) for_schemes(*branch.scheme, work);
}

// The buffers of a thread, shared by its exchanges.
FloatBuffers& buffers_of(std::optional<FloatBuffers>& buffers, int workers) {
    if (!buffers || buffers->narrow.size() != static_cast<std::size_t>(workers))
        buffers.emplace(workers);
    return *buffers;
}

// Runs both phases block by block, with the same bits as two_phase.cpp.
void run_in_phases(const PlainPhases& phases, const TrainingStep& step,
                   std::span<const std::span<const float>> gradients, double divisor,
                   std::span<float> out) {
    thread_local std::optional<FloatBuffers> at_hand, ahead;
    FloatBuffers& buffers = buffers_of(at_hand, step.workers);
    const std::vector<AgreedStatistics> statistics = statistics_of_rows(gradients);
    PhaseExchange exchange(phases, step, gradients, statistics, buffers,
                           buffers_of(ahead, step.workers));
    double y[sum_block];
    for (std::size_t first = 0; first < out.size(); first += sum_block) {
        const std::size_t n = std::min(sum_block, out.size() - first);
        for (std::size_t w = 0; w < gradients.size(); ++w)
            exchange.wire(exchange.wire_of(w))
                .encode({static_cast<std::uint32_t>(w), w}, gradients[w].subspan(first, n), first,
                        step.key, false, buffers);
        exchange.reduce(first, std::span(y, n));
        for (std::size_t i = 0; i < n; ++i) out[first + i] = static_cast<float>(y[i] / divisor);
    }
}

}  // namespace

std::size_t StepTensor::elements() const {
    return checked_size(std::span<const std::int64_t>(shape), "the shape of '" + name + "'");
}

StepExchange::StepExchange(Scheme scheme, std::vector<StepTensor> tensors, int workers,
                           const Topology& topology, std::uint64_t seed, bool divide)
    : scheme_(std::move(scheme)), tensors_(std::move(tensors)), workers_(workers),
      topology_(topology), seed_(seed), divide_(divide) {
    if (workers < 1)
        throw std::invalid_argument("workers=" + std::to_string(workers) + " must be at least 1");
    std::set<std::string> seen;
    std::vector<std::string> names, roles;
    for (const StepTensor& tensor : tensors_) {
        if (!seen.insert(tensor.name).second)
            throw std::invalid_argument(
                "two tensors have the name '" + tensor.name +
                "'; give different names, because a scheme keeps its memory by name");
        tensor.elements();  // throws for an impossible shape
        names.push_back(tensor.name);
        roles.push_back(tensor.role);
    }
    known_ = policy_tensors(names, roles);
    for_schemes(scheme_, [](const Scheme& one) {
        const auto scale = one.keys.find("scale");
        if (scale != one.keys.end() && (scale->second == "best" || scale->second == "largest"))
            throw std::invalid_argument("scheme '" + one.spec +
                                        "' chooses its scale in hindsight over all steps, which is "
                                        "impossible in a training loop; give a number as scale");
        if (std::ranges::count(one.parts.needs, "full_batch") > 0)
            throw std::invalid_argument("scheme '" + one.spec +
                                        "' needs the gradient of the full batch, which a training "
                                        "loop does not compute; use another scheme");
    });
}

std::vector<std::string> StepExchange::needs() const {
    std::set<std::string> needed;
    for_schemes(scheme_, [&](const Scheme& one) {
        needed.insert(one.parts.needs.begin(), one.parts.needs.end());
    });
    return {needed.begin(), needed.end()};
}

bool StepExchange::chooses_from_amax() const {
    bool all = topology_.is_plain() && topology_.is_order();
    for_schemes(scheme_, [&](const Scheme& one) {
        if (one.is_policy()) return;
        const SchemeParts& parts = one.parts;
        all = all && parts.streams() && parts.needs.empty() && !parts.draws() &&
              !parts.choice.needs_sums && !parts.choice.looks_ahead;
        if (!all) return;
        const FloatEncoder& encoder = parts.encoding.float_encoder.value();
        const bool exact = topology_.kind == Topology::Kind::exact || encoder.reduction.exact;
        all = !encoder.reduction.gathers() && !encoder.grid.division.of(workers_).any() &&
              !(exact && workers_ > 1);
    });
    return all;
}

std::vector<ScaledReduction> StepExchange::choose(std::int64_t number,
                                                  std::vector<AgreedStatistics> statistics) {
    const FloatEnvironment environment;
    if (statistics.size() != tensors_.size())
        throw std::invalid_argument("the number of tensors with statistics is " +
                                    std::to_string(statistics.size()) + ", not " +
                                    std::to_string(tensors_.size()));
    SelectionInput input{1, tensors_.size(), workers_, std::move(statistics), {}, {number}};
    for (std::size_t k = 0; k < tensors_.size(); ++k) {
        input.statistics[k].elements = tensors_[k].elements();
        input.names.push_back(tensors_[k].name);
    }
    std::vector<ScaledReduction> found(tensors_.size());
    for (const ResolvedScheme& scheme :
         resolve_policies(std::span(&scheme_, 1), known_, std::span(&number, 1))) {
        const std::vector<Decision> decisions = scheme.choose(input, states_[scheme.name]);
        for (std::size_t k = 0; k < tensors_.size(); ++k)
            if (scheme.has_item(k))
                found[k] = {&scheme.parts().encoding.float_encoder.value(), decisions[k]};
    }
    return found;
}

std::vector<ResolvedScheme> StepExchange::schemes_at(std::int64_t number) const {
    return reduced_by(topology_,
                      resolve_policies(std::span(&scheme_, 1), known_, std::span(&number, 1)));
}

bool StepExchange::chooses_in_phases() const {
    bool all = topology_.kind == Topology::Kind::two_phase;
    for_schemes(scheme_, [&](const Scheme& one) {
        if (!all || one.is_policy()) return;
        const auto composed = reduced_by(topology_, std::make_shared<const Scheme>(one));
        all = composed->parts.encoding.float_phases != nullptr;
    });
    return all;
}

std::vector<PhasedReduction> StepExchange::choose_in_phases(
    int phase, std::int64_t number, std::vector<std::vector<AgreedStatistics>> statistics) const {
    const FloatEnvironment environment;
    if (!chooses_in_phases())
        throw std::invalid_argument("'" + scheme_.spec +
                                    "' is not reduced in two phases with a scale for each row");
    if (phase != 1 && phase != 2)
        throw std::invalid_argument("phase must be 1 or 2, not " + std::to_string(phase));
    if (statistics.size() != tensors_.size())
        throw std::invalid_argument("the number of tensors with statistics is " +
                                    std::to_string(statistics.size()) + ", not " +
                                    std::to_string(tensors_.size()));
    std::vector<PhasedReduction> found(tensors_.size());
    for (const ResolvedScheme& scheme : schemes_at(number)) {
        const PlainPhases& phases = *scheme.parts().encoding.float_phases;
        const std::shared_ptr<const Scheme>& by = phase == 1 ? phases.phase1 : phases.phase2;
        for (std::size_t k = 0; k < tensors_.size(); ++k) {
            if (!scheme.has_item(k)) continue;
            found[k].key = key(k, number);
            if (!by) continue;
            found[k].scheme = by;
            TrainingStep alone = training_step(k, number);
            alone.workers = 1;
            const std::size_t n = tensors_[k].elements(),
                              workers = static_cast<std::size_t>(workers_);
            for (std::size_t row = 0; row < statistics[k].size(); ++row) {
                AgreedStatistics& of_row = statistics[k][row];
                of_row.elements = phase == 1 ? n : shard_of(row, n, workers).count;
                found[k].scales.push_back(choose_from_row(by->parts, alone, of_row).scale);
            }
        }
    }
    return found;
}

TrainingStep StepExchange::training_step(std::size_t tensor, std::int64_t number) const {
    TrainingStep step;
    step.tensor = tensors_[tensor].name;
    step.role = tensors_[tensor].role;
    step.shape = tensors_[tensor].shape;
    step.number = number;
    step.workers = workers_;
    step.key = key(tensor, number);
    return step;
}

void StepExchange::check(const StepGradients& step) const {
    const auto refuse = [&](const std::string& what, std::size_t number, std::size_t expected) {
        throw std::invalid_argument(what + " " + std::to_string(number) + ", not " +
                                    std::to_string(expected));
    };
    const std::size_t count = tensors_.size();
    if (step.gradients.size() != count)
        refuse("the number of tensors with gradients is", step.gradients.size(), count);
    if (step.out.size() != count)
        refuse("the number of tensors with results is", step.out.size(), count);
    if (!step.weights.empty() && step.weights.size() != count)
        refuse("the number of tensors with weights is", step.weights.size(), count);
    for (std::size_t k = 0; k < count; ++k) {
        const std::size_t elements = tensors_[k].elements();
        const std::string name = " of '" + tensors_[k].name + "' is";
        if (step.gradients[k].size() != static_cast<std::size_t>(workers_))
            refuse("the number of workers with gradients" + name, step.gradients[k].size(),
                   static_cast<std::size_t>(workers_));
        for (const std::span<const float> row : step.gradients[k])
            if (row.size() != elements)
                refuse("the size of a gradient" + name, row.size(), elements);
        if (step.out[k].size() != elements)
            refuse("the size of the result" + name, step.out[k].size(), elements);
        if (!step.weights.empty() && step.weights[k].size() != elements)
            refuse("the size of the weights" + name, step.weights[k].size(), elements);
    }
    for (const std::string& what : needs()) {
        if (what == "weights" ? step.weights.empty()
                              : !(what == "loss" ? step.loss : step.learning_rate))
            throw std::invalid_argument("scheme '" + scheme_.spec + "' needs " + what +
                                        "; give it with every step");
    }
}

std::vector<AgreedStatistics> StepExchange::statistics(const StepGradients& step,
                                                       std::span<const ResolvedScheme> schemes,
                                                       int threads) const {
    NeededStatistics sums;
    std::vector<std::size_t> streaming;  // the tensors of schemes that stream
    for (const ResolvedScheme& scheme : schemes) {
        if (!scheme.streams()) continue;
        scheme.parts().add_to(sums);
        for (std::size_t k = 0; k < tensors_.size(); ++k)
            if (scheme.has_item(k)) streaming.push_back(k);
    }
    std::vector<AgreedStatistics> agreed(tensors_.size());
    std::size_t elements = 0;
    for (const std::size_t k : streaming) elements += tensors_[k].elements();
    parallel_pieces(
        streaming.size(), threads,
        [&](std::size_t i) {
            agreed[streaming[i]] = agreed_statistics(step.gradients[streaming[i]], sums);
        },
        streaming.empty() ? 0 : elements * static_cast<std::size_t>(workers_) / streaming.size());
    return agreed;
}

std::vector<StepExchange::Task> StepExchange::tasks(const StepGradients& step, int threads) {
    const std::vector<ResolvedScheme> schemes = schemes_at(step.number);
    const SumsAhead ahead(topology_, threads, [&](std::size_t, std::size_t k) {
        return GradientRows{step.gradients[k], key(k, step.number)};
    });
    SelectionInput input{1,  tensors_.size(), workers_, statistics(step, schemes, threads),
                         {}, {step.number},   {},       &ahead};
    for (const StepTensor& tensor : tensors_) input.names.push_back(tensor.name);
    std::vector<Task> tasks;
    const auto gradient = [&step](std::size_t k, std::size_t w) { return step.gradients[k][w]; };
    for (const ResolvedScheme& scheme : schemes) {
        const bool streams = scheme.streams();
        std::map<std::size_t, std::shared_ptr<ArrayTotals>> by_tensor;
        const auto totals = [&](std::size_t first) {
            return by_tensor.try_emplace(first, std::make_shared<ArrayTotals>()).first->second;
        };
        const auto elements = [&](std::size_t k) {
            return scheme.has_item(k) ? std::optional(tensors_[k].elements()) : std::nullopt;
        };
        std::vector<Decision> decisions(tensors_.size());
        if (streams) decisions = scheme.choose(input, states_[scheme.name]);
        for (std::size_t k = 0; k < tensors_.size(); ++k) {
            if (!scheme.has_item(k)) continue;
            const std::size_t size = tensors_[k].elements(), most = streams ? chunk : size;
            State* state = streams ? nullptr : &states_[scheme.name + "|" + tensors_[k].name];
            std::shared_ptr<const Bucket> bucket;
            if (scheme.parts().bucket != 0)
                bucket = std::make_shared<const Bucket>(
                    bucket_around(scheme.parts(), k, tensors_.size(), elements,
                                  static_cast<std::size_t>(workers_), gradient, totals));
            std::size_t first = 0;
            do {
                const std::size_t count = std::min(most, size - first);
                tasks.push_back({scheme.scheme, k, first, count, decisions[k], state, bucket});
                first += count;
            } while (first < size);
        }
    }
    // Large tasks come first, so that no thread ends long after the others.
    std::ranges::stable_sort(tasks, std::ranges::greater(), &Task::count);
    return tasks;
}

void StepExchange::stream(const Task& task, const StepGradients& step) const {
    const std::span<float> out = step.out[task.tensor];
    if (task.decision.skipped) {
        std::ranges::fill(out.subspan(task.first, task.count), 0.0f);
        return;
    }
    const FloatEncoder& encoder = task.scheme->parts.encoding.float_encoder.value();
    const Topology topology =
        encoder.reduction.gathers() ? Topology{Topology::Kind::gather, 0, false} : topology_;
    const bool exact = topology.kind == Topology::Kind::exact || encoder.reduction.exact;
    thread_local std::optional<FloatBuffers> reused;
    FloatExchange exchange(encoder, task.decision, workers_, !exact, buffers_of(reused, workers_));
    const PhiloxKey key = this->key(task.tensor, step.number);
    double y[sum_block];
    const std::size_t end = task.first + task.count;
    for (std::size_t first = task.first; first < end; first += sum_block) {
        const std::size_t n = std::min(sum_block, end - first);
        for (std::size_t w = 0; w < static_cast<std::size_t>(workers_); ++w)
            exchange.encode(w, step.gradients[task.tensor][w].subspan(first, n), first, key);
        exchange.reduce(topology, exact, first, out.size(), key, divisor(), std::span(y, n));
        for (std::size_t i = 0; i < n; ++i) out[first + i] = static_cast<float>(y[i]);
    }
}

bool StepExchange::run(const Task& task, const StepGradients& step) const {
    if (task.state == nullptr) {
        stream(task, step);
        return task.decision.skipped;
    }
    TrainingStep one = training_step(task.tensor, step.number);
    one.describes = false;
    one.index = step.index;
    one.bucket = task.bucket.get();
    one.loss = step.loss.value_or(one.loss);
    one.learning_rate = step.learning_rate.value_or(one.learning_rate);
    if (!step.weights.empty()) one.weights = step.weights[task.tensor];
    const std::span<float> out = step.out[task.tensor];
    if (const auto& phases = task.scheme->parts.encoding.float_phases) {
        run_in_phases(*phases, one, step.gradients[task.tensor], divisor(), out);
        return false;
    }
    // A sum that is encoded as a whole needs no messages a second time.
    const bool at_once = task.scheme->parts.encoding.whole_sum.has_value();
    ExchangeRun run(task.scheme->parts, one, *task.state, step.gradients[task.tensor],
                    std::span(&topology_, 1), at_once);
    std::size_t first = 0;
    do {
        run.read(first);
        const Row& sum = run.send(one.key, true).reduced.at(0);
        for (std::size_t i = 0; i < sum.size(); ++i)
            out[first + i] = run.skipped() ? 0.0f : static_cast<float>(sum[i] / divisor());
        first += run.piece();
    } while (first < out.size());
    run.end();
    return run.skipped();
}

std::vector<bool> StepExchange::run(const StepGradients& step, int threads) try {
    const FloatEnvironment environment;
    check(step);
    const std::vector<Task> tasks = this->tasks(step, threads);
    std::vector<char> dropped(tasks.size());  // threads would share bytes of a vector<bool>
    // A scheme takes about ten operations per element. The size of the second largest task decides
    // whether a second thread starts at once.
    const std::size_t operations =
        tasks.size() < 2 ? 0 : 10 * tasks[1].count * static_cast<std::size_t>(workers_);
    parallel_pieces(
        tasks.size(), threads, [&](std::size_t i) { dropped[i] = run(tasks[i], step) ? 1 : 0; },
        operations);
    std::vector<bool> skipped(tensors_.size());
    for (std::size_t i = 0; i < tasks.size(); ++i)
        if (dropped[i] != 0) skipped[tasks[i].tensor] = true;
    return skipped;
} catch (const std::out_of_range&) {
    refuse_lengths();
}

}  // namespace apscope::detail
