#include "analysis/replay/replay.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <tuple>

#include "analysis/replay/block_rows.h"
#include "analysis/replay/resolved_schemes.h"
#include "analysis/replay/scheme_run.h"
#include "analysis/replay/tensor_rows.h"
#include "analysis/statistics/row_kernels.h"
#include "core/fixed_shape_sum.h"
#include "core/float_environment.h"
#include "emulation/machine/parallel.h"

namespace apscope::detail {

namespace {

// The local gradients of one item; the views keep the files mapped.
struct ItemViews {
    std::vector<TensorView> views;
    std::vector<std::span<const float>> rows;

    ItemViews(const Trace& trace, std::size_t step, std::size_t tensor, int workers) {
        for (int w = 0; w < workers; ++w) views.push_back(trace.gradient(step, tensor, w));
        for (const TensorView& view : views) rows.push_back(view.values);
    }
};

// Pass 1 on one item.
AgreedStatistics read_statistics(const ItemViews& item, ExponentHistogram& histogram, bool with_sums) {
    AgreedStatistics agreed;
    agreed.elements = item.rows[0].size();
    for (const std::span<const float> row : item.rows) {
        histogram.add(row);
        for (std::size_t b = 0; with_sums && b < row.size(); b += sum_block) {
            const auto finite = [&](std::size_t i) { return std::isfinite(row[b + i]) ? static_cast<double>(row[b + i]) : 0.0; };
            const std::size_t count = std::min(sum_block, row.size() - b);
            agreed.sum += block_sum(count, finite);
            agreed.sum_absolute += block_sum(count, [&](std::size_t i) { return std::abs(finite(i)); });
            agreed.sum_squares += block_sum(count, [&](std::size_t i) { return finite(i) * finite(i); });
        }
    }
    agreed.nonfinite = histogram.nan + histogram.infinite;
    agreed.amax = histogram.amax;
    return agreed;
}

// One replay in the making: what its items share.
class Replay {
public:
    Replay(const Trace& trace, const ReplayOptions& options)
        : trace_(trace), manifest_(trace.manifest()), options_(options),
          schemes_(resolve_policies(options.schemes, manifest_, options.steps, options.tensors)) {
        for (const Topology& t : options.topologies) {
            if (t.kind != Topology::Kind::exact) topologies_.push_back(t);
        }
        for (const ResolvedScheme& scheme : schemes_) {
            wants_sums_ = wants_sums_ || (scheme.streaming() != nullptr && scheme.streaming()->wants_sums);
            needs_order_ = needs_order_ || scheme.needs_order();
        }
    }
    ReplayResult run();

private:
    std::size_t steps() const { return options_.steps.size(); }
    std::size_t tensors() const { return options_.tensors.size(); }
    const TensorInfo& tensor(std::size_t k) const { return manifest_.tensors[options_.tensors[k]]; }
    std::size_t elements_of(std::size_t k) const { return tensor(k).size() * static_cast<std::size_t>(options_.workers); }
    ItemViews views(std::size_t t, std::size_t k) const { return {trace_, options_.steps[t], options_.tensors[k], options_.workers}; }
    // The values of an item times the schemes of pass 2 that visit it, in order of the steps or in any order.
    std::size_t visits(std::size_t i, bool ordered) const {
        const auto comes = [&](const ResolvedScheme& scheme) { return scheme.serves_item(i) && scheme.needs_order() == ordered; };
        return elements_of(i % tensors()) * static_cast<std::size_t>(std::count_if(schemes_.begin(), schemes_.end(), comes));
    }
    void report() const {
        if (options_.progress) options_.progress(done_.load(std::memory_order_relaxed), total_);
    }

    std::vector<std::size_t> in_groups() const;
    void select(const SelectionInput& input);
    std::vector<ResultRow> item(std::size_t t, std::size_t k);
    std::vector<SchemeRun*> run_on_device(std::vector<SchemeRun>& runs, const ItemViews& item, bool divide) const;
    std::vector<ResultRow> stream(std::size_t t, std::size_t k, const ItemViews& item, const std::vector<std::size_t>& streaming);
    std::vector<ResultRow> whole(std::size_t t, std::size_t k, const ItemViews& item, const ResolvedScheme& resolved, State& state);
    std::vector<ResultRow> in_order(std::size_t k, std::map<std::string, State>& states);
    void name(std::vector<ResultRow>& rows, std::size_t t, std::size_t k, const ResolvedScheme& resolved) const;

    const Trace& trace_;
    const Manifest& manifest_;
    const ReplayOptions& options_;
    std::vector<ResolvedScheme> schemes_;
    std::vector<Topology> topologies_;  // exact left out
    bool wants_sums_ = false, needs_order_ = false;
    std::vector<std::vector<Decision>> decisions_;  // a row a resolved scheme; empty for those that do not stream
    std::map<std::string, State> states_;
    std::atomic<std::size_t> done_{0};  // values visited so far, over both passes
    std::size_t total_ = 0;
};

void Replay::name(std::vector<ResultRow>& rows, std::size_t t, std::size_t k, const ResolvedScheme& resolved) const {
    for (ResultRow& row : rows) {
        row.step_index = static_cast<std::uint32_t>(options_.steps[t]);
        row.tensor_index = static_cast<std::uint32_t>(options_.tensors[k]);
        row.scheme_index = static_cast<std::uint32_t>(resolved.requested);
        row.format = resolved.scheme->grid_name();
        if (row.note.empty()) row.note = resolved.scheme->note;
    }
}

// The device's part of an item's schemes; returns the others.
std::vector<SchemeRun*> Replay::run_on_device(std::vector<SchemeRun>& runs, const ItemViews& item, bool divide) const {
    std::vector<SchemeRun*> here, there;
    std::vector<RowTask> tasks;
    for (SchemeRun& run : runs) {
        const bool serves = options_.device != nullptr && run.serves_device();
        (serves ? there : here).push_back(&run);
        if (serves) tasks.push_back(run.task());
    }
    if (there.empty()) return here;
    std::vector<RowTotals> totals = options_.device->run(item.rows, divide ? options_.workers : 1.0, tasks);
    for (std::size_t r = 0; r < there.size(); ++r) there[r]->take(std::move(totals[r]));
    return here;
}

// Schemes that scale and round, block by block, all at once.
std::vector<ResultRow> Replay::stream(std::size_t t, std::size_t k, const ItemViews& item, const std::vector<std::size_t>& streaming) {
    const std::size_t n = item.rows[0].size();
    ItemContext context;
    context.tensor = tensor(k).name;
    context.step_number = manifest_.steps[options_.steps[t]].number;
    context.elements = n;
    context.workers = options_.workers;
    context.divide = manifest_.reduction == "mean";
    context.reduces = manifest_.stage == "local";
    context.seed = options_.seed;
    context.draws = options_.draws;
    context.gradients = item.rows;

    BlockBuffers buffers(context.workers);
    std::vector<SchemeRun> runs;
    runs.reserve(streaming.size());
    for (const std::size_t l : streaming) {
        runs.emplace_back(*schemes_[l].streaming(), decisions_[l][t * tensors() + k], options_.topologies, context, buffers);
    }
    const std::vector<SchemeRun*> here = run_on_device(runs, item, context.divide);
    std::vector<double> reference;
    for (std::size_t first = 0; first < n && !here.empty(); first += sum_block) {
        const std::size_t count = std::min(sum_block, n - first);
        reference.assign(count, -0.0);  // -0 + x is x
        for (const std::span<const float> row : item.rows) simd::run<AddWidened>(reference.data(), row.data() + first, count);
        if (context.divide) simd::run<DivideRow>(reference.data(), static_cast<double>(options_.workers), count);
        for (SchemeRun* run : here) run->block(first, reference);
    }
    std::vector<ResultRow> rows;
    for (std::size_t r = 0; r < runs.size(); ++r) {
        std::vector<ResultRow> made = runs[r].rows();
        name(made, t, k, schemes_[streaming[r]]);
        std::move(made.begin(), made.end(), std::back_inserter(rows));
    }
    return rows;
}

// A scheme of a whole tensor at one step: block by block where it has a block part.
std::vector<ResultRow> Replay::whole(std::size_t t, std::size_t k, const ItemViews& item, const ResolvedScheme& resolved, State& state) {
    const StepInfo& info = manifest_.steps[options_.steps[t]];
    const bool reduces = manifest_.stage == "local";
    const std::span<const Topology> wanted = reduces ? std::span<const Topology>(topologies_) : std::span<const Topology>{};
    const ExchangeContext context{manifest_.reduction == "mean", reduces, wanted, options_.draws};
    const TensorScheme& scheme = *resolved.whole();
    const std::string missing = missing_at(scheme, trace_, options_.steps[t]);
    if (!missing.empty()) {
        std::vector<ResultRow> rows = unmeasurable_rows(scheme, item.rows[0].size(), options_.workers, missing, context);
        name(rows, t, k, resolved);
        return rows;
    }
    const auto key = [&](int draw) { return replay_key(options_.seed, tensor(k).name, info.number, static_cast<std::uint32_t>(draw)); };
    TrainingStep step;
    step.tensor = tensor(k).name;
    step.role = tensor(k).role;
    step.shape = tensor(k).shape;
    step.number = info.number;
    step.index = t;
    step.workers = options_.workers;
    step.key = key(0);
    step.loss = info.loss.value_or(step.loss);
    step.learning_rate = info.learning_rate.value_or(step.learning_rate);
    std::vector<TensorView> held;  // keeps the files mapped
    for (const std::string& what : scheme.needs) {
        if (what == "loss" || what == "learning_rate") continue;
        held.push_back(trace_.read(info.number, tensor(k).name, 0, parse_kind(what)));
        (what == "weights" ? step.weights : step.full_batch) = held.back().values;
    }
    std::vector<ResultRow> rows;
    if (scheme.blocks) {
        rows = block_rows(scheme, step, state, item.rows, context, key);
    } else {
        const State before = options_.draws > 1 && scheme.draws ? state : State{};  // the state goes on from draw 0
        const Exchange e = exchange(scheme, step, state, item.rows, wanted);
        rows = tensor_rows(scheme, e, item.rows, context, [&](int draw) {
            TrainingStep again = step;
            again.key = key(draw);
            State copy = before;
            return exchange(scheme, again, copy, item.rows, wanted);
        });
    }
    name(rows, t, k, resolved);
    return rows;
}

// Pass 2 on one item.
std::vector<ResultRow> Replay::item(std::size_t t, std::size_t k) {
    const ItemViews item = views(t, k);
    std::vector<std::size_t> streaming;
    std::vector<ResultRow> rows;
    for (std::size_t s = 0; s < schemes_.size(); ++s) {
        const ResolvedScheme& resolved = schemes_[s];
        if (!resolved.serves_item(t * tensors() + k) || resolved.needs_order()) continue;
        if (resolved.streaming() != nullptr) {
            streaming.push_back(s);
            continue;
        }
        State none;
        std::vector<ResultRow> made = whole(t, k, item, resolved, none);
        std::move(made.begin(), made.end(), std::back_inserter(rows));
    }
    std::vector<ResultRow> made = stream(t, k, item, streaming);
    std::move(made.begin(), made.end(), std::back_inserter(rows));
    return rows;
}

// The schemes that remember elements, on one tensor through all steps.
std::vector<ResultRow> Replay::in_order(std::size_t k, std::map<std::string, State>& states) {
    std::vector<ResultRow> rows;
    for (std::size_t t = 0; t < steps(); ++t) {
        const ItemViews item = views(t, k);
        for (const ResolvedScheme& resolved : schemes_) {
            if (!resolved.needs_order() || !resolved.serves_item(t * tensors() + k)) continue;
            const std::string key = state_key(*resolved.scheme, tensor(k).name);
            if (t == 0 || !states.contains(key)) {
                const auto earlier = options_.states.find(key);
                states.try_emplace(key, earlier == options_.states.end() ? State{} : earlier->second);
            }
            std::vector<ResultRow> made = whole(t, k, item, resolved, states[key]);
            std::move(made.begin(), made.end(), std::back_inserter(rows));
        }
    }
    return rows;
}

void Replay::select(const SelectionInput& input) {
    decisions_.resize(schemes_.size());
    for (std::size_t s = 0; s < schemes_.size(); ++s) {
        const ResolvedScheme& resolved = schemes_[s];
        if (resolved.streaming() == nullptr) continue;
        const std::string& spec = resolved.scheme->spec;
        const auto earlier = options_.states.find(spec);
        State state = earlier == options_.states.end() ? State{} : earlier->second;
        decisions_[s] = resolved.streaming()->select(resolved.serves.empty() ? input : seen_by(resolved, input), state);
        if (resolved.streaming()->keeps_state) states_[spec] = std::move(state);
    }
}

// The items as threads take them: some steps at a time, whose files stay open meanwhile, and of these steps the
// largest tensor first. Neighbours belong to different steps, so that threads seldom want the same file at once,
// and the smallest items come last.
std::vector<std::size_t> Replay::in_groups() const {
    constexpr std::size_t files = 128;  // half of what a trace keeps open
    const std::size_t group = std::max<std::size_t>(1, files / static_cast<std::size_t>(options_.workers));
    std::vector<std::size_t> by_size(tensors());
    std::iota(by_size.begin(), by_size.end(), std::size_t{0});
    std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) { return elements_of(a) > elements_of(b); });
    std::vector<std::size_t> order;
    order.reserve(steps() * tensors());
    for (std::size_t first = 0; first < steps(); first += group) {
        for (const std::size_t k : by_size) {
            for (std::size_t t = first; t < std::min(first + group, steps()); ++t) order.push_back(t * tensors() + k);
        }
    }
    return order;
}

ReplayResult Replay::run() {
    const std::size_t items = steps() * tensors();
    SelectionInput input{steps(), tensors(), options_.workers, std::vector<AgreedStatistics>(items), {}, {}};
    for (std::size_t k = 0; k < tensors(); ++k) input.names.push_back(tensor(k).name);
    for (const std::size_t step : options_.steps) input.step_numbers.push_back(manifest_.steps[step].number);
    std::vector<ExponentHistogram> histograms(items);

    // Pass 2 takes every N-th item, and every N-th tensor with all its steps.
    const std::vector<std::size_t> order = in_groups();
    std::vector<std::size_t> mine, ordered;
    for (const std::size_t i : order) {
        if (i % options_.shards == options_.shard) mine.push_back(i);
    }
    for (std::size_t k = options_.shard; k < tensors() && needs_order_; k += options_.shards) ordered.push_back(k);
    const auto all_visits = [&](std::size_t k) {
        std::size_t sum = 0;
        for (std::size_t t = 0; t < steps(); ++t) sum += visits(t * tensors() + k, true);
        return sum;
    };
    for (std::size_t k = 0; k < tensors(); ++k) total_ += elements_of(k) * steps();
    for (const std::size_t i : mine) total_ += visits(i, false);
    for (const std::size_t k : ordered) total_ += all_visits(k);

    // Pass 1, the whole selection in every shard, so that a shard never changes a number.
    const auto tell = [&](std::size_t) { report(); };
    parallel_for(items, options_.threads, [&](std::size_t j) {
        const std::size_t i = order[j];
        input.statistics[i] = read_statistics(views(i / tensors(), i % tensors()), histograms[i], wants_sums_);
        done_.fetch_add(elements_of(i % tensors()), std::memory_order_relaxed);
    }, tell);
    select(input);

    std::vector<std::vector<ResultRow>> rows(items), ordered_rows(ordered.size());
    std::vector<std::map<std::string, State>> states(ordered.size());
    parallel_for(ordered.size() + mine.size(), options_.threads, [&](std::size_t j) {
        if (j < ordered.size()) {  // the longest first
            ordered_rows[j] = in_order(ordered[j], states[j]);
            done_.fetch_add(all_visits(ordered[j]), std::memory_order_relaxed);
            return;
        }
        const std::size_t i = mine[j - ordered.size()];
        rows[i] = item(i / tensors(), i % tensors());
        done_.fetch_add(visits(i, false), std::memory_order_relaxed);
    }, tell);
    report();  // what the other threads did last

    ReplayResult result;
    std::size_t made = 0;
    for (const auto* parts : {&ordered_rows, &rows}) {
        for (const std::vector<ResultRow>& part : *parts) made += part.size();
    }
    result.rows.reserve(made);
    for (auto* parts : {&ordered_rows, &rows}) {
        for (std::vector<ResultRow>& part : *parts) std::move(part.begin(), part.end(), std::back_inserter(result.rows));
    }
    const auto comes_first = [](const ResultRow& a, const ResultRow& b) {
        return std::tie(a.step_index, a.tensor_index, a.scheme_index) < std::tie(b.step_index, b.tensor_index, b.scheme_index);
    };
    if (!std::is_sorted(result.rows.begin(), result.rows.end(), comes_first)) {
        std::stable_sort(result.rows.begin(), result.rows.end(), comes_first);
    }
    for (std::size_t i = options_.shard; i < items; i += options_.shards) {
        result.histograms.push_back({options_.steps[i / tensors()], options_.tensors[i % tensors()], histograms[i]});
    }
    for (std::map<std::string, State>& part : states) states_.merge(part);
    result.states = std::move(states_);
    return result;
}

}  // namespace

std::string state_key(const Scheme& scheme, std::string_view tensor) { return scheme.spec + "|" + std::string(tensor); }

ReplayResult replay(const Trace& trace, const ReplayOptions& options) {
    const FloatEnvironment environment;
    const Manifest& manifest = trace.manifest();
    if (options.workers < 1 || options.workers > manifest.workers) {
        throw std::invalid_argument("workers=" + std::to_string(options.workers) + " is not between 1 and the " + std::to_string(manifest.workers) +
                                    " that trace '" + manifest.name + "' recorded");
    }
    if (options.shards == 0 || options.shard >= options.shards) {
        throw std::invalid_argument("shard " + std::to_string(options.shard) + "/" + std::to_string(options.shards) +
                                    " does not exist; shards count from 0 to N-1");
    }
    if (options.draws != 1 && options.draws < 3) {
        throw std::invalid_argument("draws=" + std::to_string(options.draws) + " gives no standard error; use 1 for none or at least 3");
    }
    return Replay(trace, options).run();
}

}  // namespace apscope::detail
