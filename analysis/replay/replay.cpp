#include "analysis/replay/replay.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "analysis/replay/bucket_views.h"
#include "analysis/replay/check_options.h"
#include "analysis/replay/exchange_task.h"
#include "analysis/replay/first_pass.h"
#include "analysis/replay/item_queue.h"
#include "analysis/replay/item_rows.h"
#include "analysis/replay/item_views.h"
#include "analysis/replay/requested_topologies.h"
#include "analysis/replay/resolve_schemes.h"
#include "analysis/replay/row_stream.h"
#include "analysis/replay/tensor_rows.h"
#include "analysis/replay/work_list.h"
#include "analysis/statistics/notes.h"
#include "core/float_environment.h"
#include "emulation/machine/memory.h"
#include "emulation/machine/parallel.h"
#include "emulation/schemes/lookahead.h"

namespace apscope::detail {

namespace {

// A running replay: the data that its items share.
class Replay {
public:
    Replay(const Trace& trace, ReplayOptions options)
        : trace_(trace), manifest_(trace.manifest()), options_(std::move(options)),
          schemes_(resolve_schemes(manifest_, options_)), work_(manifest_, options_, schemes_),
          topologies_(options_.topologies) {
        for (const ResolvedScheme& scheme : schemes_)
            if (scheme.streams()) scheme.parts().add_to(needed_);
        if (options_.memory == 0) options_.memory = machine_memory() / 2;
    }
    ReplayResult run();
    void check_memory() { work_.needs(work_.items(), options_.memory); }
    // Runs only pass 1, for these (step, tensor) pairs.
    SelectionStatistics statistics(const std::vector<std::size_t>& pairs);

private:
    // The result of an item of pass 2.
    struct Made {
        std::vector<std::vector<ResultRow>> rows;  // per step of the item
        std::optional<ItemNoise> noise;            // only of an item of one step
        std::vector<ItemWindow> windows;           // only of an item of all steps
        std::map<std::string, State> states;
    };

    std::size_t steps() const { return options_.steps.size(); }
    std::size_t tensors() const { return options_.tensors.size(); }
    const TensorInfo& tensor(std::size_t k) const { return manifest_.tensors[options_.tensors[k]]; }
    std::size_t values_of(std::size_t k) const {
        return tensor(k).size() * static_cast<std::size_t>(options_.workers);
    }
    // True if step t does not directly follow the step replayed before it.
    bool follows_gap(std::size_t t) const {
        const auto number = [&](std::size_t i) {
            return manifest_.steps[options_.steps[i]].number;
        };
        return t > 0 && number(t) != number(t - 1) + 1;
    }
    ItemViews views(std::size_t t, std::size_t k) const {
        return {trace_, options_.steps[t], options_.tensors[k], options_.workers};
    }
    // The topologies that add a scheme's codes; none if the gradients are reduced already.
    std::span<const Topology> orders_of(const SchemeParts& scheme) const {
        if (manifest_.stage != "local") return {};
        return topologies_.orders_of(scheme);
    }
    void report() const {
        if (options_.progress) options_.progress(done_.load(std::memory_order_relaxed), total_);
    }

    std::vector<WorkItem> wanted_items() const;
    std::vector<std::size_t> ends_of_groups(const std::vector<WorkItem>& items) const;
    std::vector<std::size_t> all_pairs() const;
    ItemHistogram histogram_of(std::size_t pair, const ExponentHistogram& histogram) const;
    FirstPass read(const std::vector<std::size_t>& pairs);
    void select(std::vector<AgreedStatistics> statistics);
    std::vector<Decision> choose(const SelectionInput& input, const ResolvedScheme& resolved,
                                 const Topology& topology);
    Made do_item(const WorkItem& item, Workspace& workspace);
    std::vector<ResultRow> stream(std::size_t t, std::size_t k, const ItemContext& item,
                                  const std::vector<std::size_t>& streaming,
                                  const std::vector<std::size_t>& alone, Workspace& workspace);
    TrainingStep training_step(std::size_t t, std::size_t k, const ItemContext& item) const;
    std::vector<ResultRow> unstreamed(std::size_t t, std::size_t k, const ItemContext& item,
                                      const ResolvedScheme& resolved, State& state,
                                      Workspace& workspace);
    ItemContext context(std::size_t t, std::size_t k, const ItemViews& item,
                        const BatchNoise& noise) const;
    State& state_of(const ResolvedScheme& resolved, std::size_t k,
                    std::map<std::string, State>& states);
    void name(std::vector<ResultRow>& rows, std::size_t t, std::size_t k,
              const ResolvedScheme& resolved) const;

    const Trace& trace_;
    const Manifest& manifest_;
    ReplayOptions options_;
    std::vector<ResolvedScheme> schemes_;
    WorkList work_;
    RequestedTopologies topologies_;
    NeededStatistics needed_;
    // By resolved scheme, then by topology as in select(); empty for schemes that do not stream.
    std::vector<std::vector<std::vector<Decision>>> decisions_;
    std::map<std::string, State> states_;
    BucketTotals totals_;
    std::atomic<std::size_t> done_{0};  // values visited so far, over both passes
    std::size_t total_ = 0;
};

void Replay::name(std::vector<ResultRow>& rows, std::size_t t, std::size_t k,
                  const ResolvedScheme& resolved) const {
    for (ResultRow& row : rows) {
        row.step_index = static_cast<std::uint32_t>(options_.steps[t]);
        row.tensor_index = static_cast<std::uint32_t>(options_.tensors[k]);
        row.scheme_index = static_cast<std::uint32_t>(resolved.requested);
        row.topology_index = topologies_.place_of(row.topology, row.wire);
        row.format = resolved.parts().grid;
        stand_for_whole(row, tensor(k).stands_for());
        if (row.note.empty()) row.note = resolved.scheme->note;
        if (resolved.parts().keeps_state() && follows_gap(t)) add_note(row.note, after_gap);
        if (resolved.parts().encoding.mixes_elements && tensor(k).stands_for() != 1.0)
            add_note(row.note, of_sample);
    }
}

TrainingStep Replay::training_step(std::size_t t, std::size_t k, const ItemContext& item) const {
    const StepInfo& info = manifest_.steps[options_.steps[t]];
    TrainingStep step;
    step.tensor = tensor(k).name;
    step.role = tensor(k).role;
    step.shape = tensor(k).shape;
    step.number = info.number;
    step.index = t;
    step.workers = options_.workers;
    step.key = item.key(0);
    step.loss = info.loss.value_or(step.loss);
    step.learning_rate = info.learning_rate.value_or(step.learning_rate);
    return step;
}

// The rows of all schemes that stream and of those alone (item_rows.h).
std::vector<ResultRow> Replay::stream(std::size_t t, std::size_t k, const ItemContext& item,
                                      const std::vector<std::size_t>& streaming,
                                      const std::vector<std::size_t>& alone, Workspace& workspace) {
    std::vector<Streamed> schemes;
    for (const std::size_t s : streaming) {
        const std::size_t paths = decisions_[s].size();
        for (std::size_t path = 0; path < paths; ++path) {
            std::span<const Topology> topologies = orders_of(schemes_[s].parts());
            if (paths > 1)
                topologies = topologies.subspan(path == 0 ? 0 : path - 1, path == 0 ? 0 : 1);
            schemes.push_back({&schemes_[s].parts(), &decisions_[s][path][t * tensors() + k],
                               topologies, paths > 1});
        }
    }
    std::vector<Alone> others;
    for (const std::size_t s : alone)
        others.push_back({&schemes_[s].parts(), training_step(t, k, item),
                          orders_of(schemes_[s].parts()), schemes_[s].composed});
    std::vector<std::vector<ResultRow>> made = streamed_rows(
        schemes, others, item, workspace.blocks_of(options_.workers), options_.device);
    std::vector<ResultRow> rows;
    auto next = made.begin();
    for (const std::size_t s : streaming) {
        std::vector<ResultRow> of_scheme;  // wire rows first
        const auto end = next + static_cast<std::ptrdiff_t>(decisions_[s].size());
        for (auto path = next; path != end; ++path)
            std::move(path->begin(), path->end(), std::back_inserter(of_scheme));
        next = end;
        std::ranges::stable_partition(of_scheme, &ResultRow::wire);
        name(of_scheme, t, k, schemes_[s]);
        std::move(of_scheme.begin(), of_scheme.end(), std::back_inserter(rows));
    }
    for (const std::size_t s : alone) {
        name(*next, t, k, schemes_[s]);
        std::move(next->begin(), next->end(), std::back_inserter(rows));
        ++next;
    }
    return rows;
}

// The rows of a scheme that does not stream, at one step.
std::vector<ResultRow> Replay::unstreamed(std::size_t t, std::size_t k, const ItemContext& item,
                                          const ResolvedScheme& resolved, State& state,
                                          Workspace& workspace) {
    const SchemeParts& scheme = resolved.parts();
    const std::string missing = missing_at(scheme, trace_, options_.steps[t]);
    ItemContext context = item;
    if (context.reduces) context.topologies = orders_of(scheme);
    context.last_alone = resolved.composed;
    if (!missing.empty()) {
        std::vector<ResultRow> rows = unmeasurable_rows(scheme, missing, context);
        name(rows, t, k, resolved);
        return rows;
    }
    TrainingStep step = training_step(t, k, item);
    const BucketViews beside(trace_, options_, resolved, t, k, totals_);
    step.bucket = beside.bucket();
    std::vector<TensorView> views;  // keeps the files mapped
    for (const std::string& what : scheme.needs) {
        if (what == "loss" || what == "learning_rate") continue;
        views.push_back(trace_.read(step.number, tensor(k).name, 0, parse_kind(what)));
        (what == "weights" ? step.weights : step.full_batch) = views.back().values;
    }
    std::vector<ResultRow> rows =
        tensor_rows(scheme, step, state, context, workspace.blocks_of(options_.workers));
    name(rows, t, k, resolved);
    return rows;
}

ItemContext Replay::context(std::size_t t, std::size_t k, const ItemViews& item,
                            const BatchNoise& noise) const {
    ItemContext context;
    context.tensor = tensor(k).name;
    context.step_number = manifest_.steps[options_.steps[t]].number;
    context.divide = manifest_.reduction == "mean";
    context.reduces = manifest_.stage == "local";
    context.seed = options_.seed;
    context.draws = options_.draws;
    // For every scheme, orders_of() replaces these topologies.
    if (context.reduces) context.topologies = topologies_.orders();
    context.gradients = item.rows;
    context.noise = &noise;
    context.stands_for = tensor(k).stands_for();
    return context;
}

// A scheme's memory of a tensor; initially the memory from an earlier replay, if there is one.
State& Replay::state_of(const ResolvedScheme& resolved, std::size_t k,
                        std::map<std::string, State>& states) {
    const std::string key = resolved.name + "|" + tensor(k).name;
    const auto match = states.find(key);
    if (match != states.end()) return match->second;
    const auto earlier = options_.states.find(key);  // an entry that no other item uses
    return states
        .emplace(key, earlier == options_.states.end() ? State{} : std::move(earlier->second))
        .first->second;
}

// Pass 2 on one item: all schemes at one step, or one scheme through all steps (work_list.h).
Replay::Made Replay::do_item(const WorkItem& item, Workspace& workspace) {
    Made made;
    const auto add = [&](std::vector<ResultRow> rows) {
        std::move(rows.begin(), rows.end(), std::back_inserter(made.rows.back()));
    };
    const std::size_t k = item.tensor;
    ReductionWindows windows;
    for (std::size_t t = item.step.value_or(0); t < (item.step ? *item.step + 1 : steps()); ++t) {
        made.rows.emplace_back();
        const ItemViews read = views(t, k);
        BatchNoise noise;
        if (manifest_.stage == "local")
            noise = batch_noise(read.rows, manifest_.reduction == "mean");
        ItemContext context = this->context(t, k, read, noise);
        if (options_.persistence && !item.step) context.windows = &windows;
        const bool on_device = is_for_device(context, options_.device);
        std::vector<std::size_t> streaming, alone, others;
        for (std::size_t s = 0; s < schemes_.size(); ++s) {
            const ResolvedScheme& resolved = schemes_[s];
            if (!work_.includes(item, resolved, t)) continue;
            const SchemeParts& parts = resolved.parts();
            ItemContext own = context;
            own.topologies = orders_of(parts);
            const bool is_alone =
                supports_phases(parts, own) || (on_device && encodes_on_device(parts, own));
            (resolved.streams() ? streaming : is_alone ? alone : others).push_back(s);
        }
        // Two-phase reductions come after the schemes' own rows, as in a table of results.
        if (!streaming.empty() || !alone.empty())
            add(stream(t, k, context, streaming, alone, workspace));
        for (const std::size_t s : others) {
            State none;
            add(unstreamed(t, k, context, schemes_[s],
                           schemes_[s].needs_order() ? state_of(schemes_[s], k, made.states) : none,
                           workspace));
        }
        if (item.step && !noise.blocks.empty()) {
            noise.stand_for_whole(tensor(k).stands_for());
            made.noise = {options_.steps[t], options_.tensors[k], std::move(noise)};
        }
        made.rows.back().shrink_to_fit();  // rows of all steps may stay in memory for long
    }
    for (const auto& [topology, errors] : windows.all()) {
        for (WindowSums sums : errors.windows()) {
            sums.stand_for_whole(tensor(k).stands_for());
            made.windows.push_back({options_.tensors[k], item.requested, topology, sums});
        }
    }
    if (!options_.keeps_states) made.states.clear();
    return made;
}

void Replay::select(std::vector<AgreedStatistics> statistics) {
    SelectionInput input{steps(), tensors(), options_.workers, std::move(statistics), {}, {}};
    for (const std::size_t k : options_.tensors) {
        input.names.push_back(manifest_.tensors[k].name);
        input.whole_elements.push_back(manifest_.tensors[k].whole_size());
    }
    for (const std::size_t step : options_.steps)
        input.step_numbers.push_back(manifest_.steps[step].number);
    decisions_.resize(schemes_.size());
    for (std::size_t s = 0; s < schemes_.size(); ++s) {
        const ResolvedScheme& resolved = schemes_[s];
        if (!resolved.streams()) continue;
        // The first decisions are for the exact sum. A scheme that looks ahead may decide
        // differently for each topology, so the decisions for all topologies follow.
        std::vector<Topology> paths{Topology{}};
        if (resolved.parts().choice.looks_ahead && manifest_.stage == "local")
            paths.insert(paths.end(), topologies_.common().begin(), topologies_.common().end());
        for (const Topology& path : paths) decisions_[s].push_back(choose(input, resolved, path));
    }
}

// The decisions of a scheme, from its memory of an earlier replay; each topology has a separate
// memory if the scheme looks ahead.
std::vector<Decision> Replay::choose(const SelectionInput& input, const ResolvedScheme& resolved,
                                     const Topology& topology) {
    const SumsAhead ahead(topology, options_.threads, [&](std::size_t t, std::size_t k) {
        report();
        const auto item = std::make_shared<ItemViews>(views(t, k));
        const std::int64_t number = manifest_.steps[options_.steps[t]].number;
        return GradientRows{item->rows, replay_key(options_.seed, tensor(k).name, number), item};
    });
    SelectionInput seen = input;
    const bool looks = resolved.parts().choice.looks_ahead;
    if (looks) seen.ahead = &ahead;
    const std::string name = resolved.name + (looks ? "|" + topology.name() : "");
    const auto earlier = options_.states.find(name);
    State state = earlier == options_.states.end() ? State{} : earlier->second;
    std::vector<Decision> decisions = resolved.choose(seen, state);
    if (resolved.parts().keeps_state() && options_.keeps_states) states_[name] = std::move(state);
    return decisions;
}

std::vector<WorkItem> Replay::wanted_items() const {
    if (!options_.items) return work_.items();
    std::vector<WorkItem> items;
    for (const std::size_t i : *options_.items) items.push_back(work_.items().at(i));
    return items;
}

// For each group of steps, the number of items up to its end.
std::vector<std::size_t> Replay::ends_of_groups(const std::vector<WorkItem>& items) const {
    std::vector<std::size_t> ends(steps() / work_.group() + 1);
    for (std::size_t j = 0; j < items.size(); ++j)
        ends[items[j].step ? *items[j].step / work_.group() : 0] = j + 1;
    for (std::size_t g = 1; g < ends.size(); ++g) ends[g] = std::max(ends[g], ends[g - 1]);
    return ends;
}

std::vector<std::size_t> Replay::all_pairs() const {
    std::vector<std::size_t> pairs(steps() * tensors());
    std::iota(pairs.begin(), pairs.end(), std::size_t{0});
    return pairs;
}

ItemHistogram Replay::histogram_of(std::size_t pair, const ExponentHistogram& histogram) const {
    return {options_.steps[pair / tensors()], options_.tensors[pair % tensors()], histogram};
}

FirstPass Replay::read(const std::vector<std::size_t>& pairs) {
    const auto visited = [&](std::size_t values) {
        done_.fetch_add(values, std::memory_order_relaxed);
    };
    return first_pass(trace_, options_, work_, needed_, pairs, visited, [&] { report(); });
}

SelectionStatistics Replay::statistics(const std::vector<std::size_t>& pairs) {
    for (const std::size_t pair : pairs) total_ += values_of(pair % tensors());
    FirstPass pass = read(pairs);
    report();  // the last progress of the other threads
    trace_.check_unchanged();
    SelectionStatistics statistics{std::move(pass.agreed), {}};
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        if (pairs[i] % options_.shards == options_.shard)
            statistics.histograms.push_back(histogram_of(pairs[i], pass.histograms[i]));
    }
    return statistics;
}

ReplayResult Replay::run() {
    const std::vector<WorkItem> items = wanted_items();
    WorkList::Needs needs = work_.needs(items, options_.memory);
    for (std::size_t k = 0; k < tensors() && !options_.statistics; ++k)
        total_ += values_of(k) * steps();
    for (const WorkItem& item : items) total_ += work_.visits(item);

    // Every shard reads the whole selection, so sharding never changes a number.
    FirstPass pass =
        options_.statistics ? FirstPass{std::move(*options_.statistics), {}} : read(all_pairs());
    select(std::move(pass.agreed));

    ReplayResult result;
    if (!options_.rows) {
        options_.rows = [&](std::vector<ResultRow> rows) {
            std::move(rows.begin(), rows.end(), std::back_inserter(result.rows));
        };
    }
    ItemQueue queue(std::move(needs.items),
                    options_.memory - std::min(options_.memory, needs.state));
    // Threads run at most one group of steps ahead of the step whose rows are passed on next. This
    // bounds the memory if rows are made faster than they are taken.
    const std::vector<std::size_t> ends = ends_of_groups(items);
    const auto begun = [&](std::size_t t) {
        queue.open_until(ends[std::min(t / work_.group() + 1, ends.size() - 1)]);
    };
    constexpr std::size_t batch = 16384;
    RowStream stream(items, steps(), batch, options_.rows, begun);
    std::vector<std::optional<ItemNoise>> noise(items.size());
    std::vector<std::vector<ItemWindow>> windows(items.size());
    std::vector<std::map<std::string, State>> states(items.size());
    const auto do_one = [&](std::size_t j, Workspace& workspace) {
        Made made = do_item(items[j], workspace);
        noise[j] = std::move(made.noise);
        windows[j] = std::move(made.windows);
        states[j] = std::move(made.states);
        stream.add(items[j], std::move(made.rows));
        done_.fetch_add(work_.visits(items[j]), std::memory_order_relaxed);
    };
    parallel_for(
        items.size(), options_.threads, [&](std::size_t) { queue.do_one(do_one); },
        [&](std::size_t) { report(); });
    report();  // the last progress of the other threads
    trace_.check_unchanged();
    stream.end();

    for (std::optional<ItemNoise>& one : noise) {
        if (one) result.noise.push_back(std::move(*one));
    }
    for (std::vector<ItemWindow>& some : windows)
        std::move(some.begin(), some.end(), std::back_inserter(result.windows));
    std::ranges::stable_sort(result.windows, {}, [&](const ItemWindow& w) {
        return std::tuple(w.sums.first, w.tensor_index, w.scheme_index,
                          topologies_.place_of(w.topology, false));
    });
    for (std::map<std::string, State>& after : states) states_.merge(after);
    std::sort(result.noise.begin(), result.noise.end(), [](const ItemNoise& a, const ItemNoise& b) {
        return std::tie(a.step_index, a.tensor_index) < std::tie(b.step_index, b.tensor_index);
    });
    std::vector<std::size_t> here;  // the pairs whose histograms this shard returns
    for (const WorkItem& item : items) {
        if (item.step && !pass.histograms.empty())
            here.push_back(*item.step * tensors() + item.tensor);
    }
    std::sort(here.begin(), here.end());
    for (const std::size_t pair : here)
        result.histograms.push_back(histogram_of(pair, pass.histograms[pair]));
    result.states = std::move(states_);
    return result;
}

// Compares the manifest's shapes with those in a file before anything is computed from them.
void check_files(const Trace& trace, const ReplayOptions& options) {
    if (!options.steps.empty()) trace.check_shapes(options.steps.front(), options.tensors);
}

}  // namespace

ReplayResult replay(const Trace& trace, ReplayOptions options) {
    const FloatEnvironment environment;
    check_options(trace, options);
    check_files(trace, options);
    return Replay(trace, std::move(options)).run();
}

void check_memory(const Trace& trace, ReplayOptions options) {
    const FloatEnvironment environment;
    check_options(trace, options);
    Replay(trace, std::move(options)).check_memory();
}

SelectionStatistics read_statistics(const Trace& trace, ReplayOptions options,
                                    const std::vector<std::size_t>& pairs) {
    const FloatEnvironment environment;
    check_options(trace, options);
    const std::size_t all = options.steps.size() * options.tensors.size();
    if (std::adjacent_find(pairs.begin(), pairs.end(), std::greater_equal<>{}) != pairs.end() ||
        (!pairs.empty() && pairs.back() >= all)) {
        throw std::invalid_argument(
            "the places of (step, tensor) pairs must ascend, and be less than " +
            std::to_string(all));
    }
    check_files(trace, options);
    return Replay(trace, std::move(options)).statistics(pairs);
}

std::vector<WorkCost> work_costs(const Trace& trace, const ReplayOptions& options) {
    const FloatEnvironment environment;
    check_options(trace, options);
    const std::vector<ResolvedScheme> schemes = resolve_schemes(trace.manifest(), options);
    WorkList work(trace.manifest(), options, schemes);
    const std::vector<double> seconds = work.seconds();
    std::vector<WorkCost> costs;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
        const WorkItem& item = work.items()[i];
        costs.push_back({item.step, item.tensor, work.visits(item), seconds[i]});
    }
    return costs;
}

}  // namespace apscope::detail
