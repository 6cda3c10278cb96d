#include "analysis/replay.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <stdexcept>

#include "analysis/scheme_run.h"
#include "core/fixed_shape_sum.h"
#include "core/float_environment.h"
#include "emulation/parallel.h"

namespace apscope {

namespace {

// Elements read so far, over both passes, reported by the calling thread.
struct Progress {
    std::atomic<std::size_t> done{0};
    std::size_t total = 0;
};

std::size_t selected_elements(const Manifest& manifest, const ReplayOptions& options) {
    std::size_t elements = 0;
    for (const std::size_t t : options.tensors) elements += manifest.tensors[t].size();
    return elements * options.steps.size() * static_cast<std::size_t>(options.workers);
}

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
AgreedStatistics read_statistics(const ItemViews& item, ExponentHistogram& histogram) {
    AgreedStatistics agreed;
    agreed.elements = item.rows[0].size();
    std::uint32_t amax = 0;  // finite magnitudes compare as integers
    for (const std::span<const float> row : item.rows) {
        histogram.add(row);
        for (const float g : row) {
            const std::uint32_t magnitude = bits_cast<std::uint32_t>(g) & 0x7FFFFFFF;
            if (magnitude < 0x7F800000) amax = std::max(amax, magnitude);
        }
    }
    agreed.nonfinite = histogram.nan + histogram.infinite;
    agreed.amax = bits_cast<float>(amax);
    return agreed;
}

// Pass 2 on one item: all schemes and topologies, block by block.
std::vector<ResultRow> replay_item(const ItemViews& item, const Manifest& manifest, std::size_t step, std::size_t tensor,
                                   const ReplayOptions& options, const std::vector<const Decision*>& decisions) {
    const std::size_t n = item.rows[0].size();
    ItemContext context;
    context.tensor = manifest.tensors[tensor].name;
    context.step_number = manifest.steps[step].number;
    context.elements = n;
    context.workers = options.workers;
    context.divide = manifest.reduction == "mean";
    context.reduces = manifest.stage == "local";
    context.seed = options.seed;
    context.draws = options.draws;
    context.gradients = item.rows;

    std::vector<SchemeRun> runs;
    runs.reserve(options.schemes.size());
    for (std::size_t s = 0; s < options.schemes.size(); ++s) {
        runs.emplace_back(options.schemes[s], *decisions[s], options.topologies, context);
    }
    std::vector<double> reference;
    for (std::size_t first = 0; first < n; first += sum_block) {
        const std::size_t count = std::min(sum_block, n - first);
        reference.assign(item.rows[0].begin() + static_cast<std::ptrdiff_t>(first),
                         item.rows[0].begin() + static_cast<std::ptrdiff_t>(first + count));
        for (std::size_t w = 1; w < item.rows.size(); ++w) {
            for (std::size_t i = 0; i < count; ++i) reference[i] += item.rows[w][first + i];
        }
        if (context.divide) {
            for (double& r : reference) r /= options.workers;
        }
        for (SchemeRun& run : runs) run.block(first, reference);
    }
    std::vector<ResultRow> rows;
    for (std::size_t s = 0; s < runs.size(); ++s) {
        for (ResultRow& row : runs[s].rows()) {
            row.step_index = static_cast<std::uint32_t>(step);
            row.tensor_index = static_cast<std::uint32_t>(tensor);
            row.scheme_index = static_cast<std::uint32_t>(s);
            rows.push_back(std::move(row));
        }
    }
    return rows;
}

}  // namespace

ReplayResult replay(const Trace& trace, const ReplayOptions& options) {
    const FloatEnvironment environment;
    const Manifest& manifest = trace.manifest();
    if (options.workers < 1 || options.workers > manifest.workers) {
        throw std::invalid_argument("workers=" + std::to_string(options.workers) + " is not between 1 and the " +
                                    std::to_string(manifest.workers) + " that trace '" + manifest.name + "' recorded");
    }
    if (options.shards == 0 || options.shard >= options.shards) {
        throw std::invalid_argument("shard " + std::to_string(options.shard) + "/" + std::to_string(options.shards) +
                                    " does not exist; shards count from 0 to N-1");
    }
    if (options.draws != 1 && options.draws < 3) {
        throw std::invalid_argument("draws=" + std::to_string(options.draws) + " gives no standard error; use 1 for none or at least 3");
    }
    const std::size_t steps = options.steps.size(), tensors = options.tensors.size(), items = steps * tensors;

    // Pass 1, the whole selection in every shard, so that a shard never changes a number.
    SelectionInput input{steps, tensors, options.workers, std::vector<AgreedStatistics>(items)};
    std::vector<ExponentHistogram> histograms(items);
    Progress progress;
    progress.total = 2 * selected_elements(manifest, options);
    const auto report = [&](std::size_t) {
        if (options.progress) options.progress(progress.done.load(std::memory_order_relaxed), progress.total);
    };
    const auto elements_of = [&](std::size_t item) {
        return manifest.tensors[options.tensors[item % tensors]].size() * static_cast<std::size_t>(options.workers);
    };
    parallel_for(items, options.threads, [&](std::size_t item) {
        const ItemViews views(trace, options.steps[item / tensors], options.tensors[item % tensors], options.workers);
        input.statistics[item] = read_statistics(views, histograms[item]);
        progress.done.fetch_add(elements_of(item), std::memory_order_relaxed);
    }, report);

    std::vector<std::vector<Decision>> decisions;
    for (const Scheme& scheme : options.schemes) decisions.push_back(scheme.select(input));

    // Pass 2.
    std::vector<std::size_t> mine;
    for (std::size_t item = options.shard; item < items; item += options.shards) mine.push_back(item);
    progress.total = progress.done.load();
    for (const std::size_t item : mine) progress.total += elements_of(item);
    std::vector<std::vector<ResultRow>> rows(mine.size());
    parallel_for(mine.size(), options.threads, [&](std::size_t k) {
        const std::size_t item = mine[k], step = options.steps[item / tensors], tensor = options.tensors[item % tensors];
        const ItemViews views(trace, step, tensor, options.workers);
        std::vector<const Decision*> chosen;
        for (const std::vector<Decision>& d : decisions) chosen.push_back(&d[item]);
        rows[k] = replay_item(views, manifest, step, tensor, options, chosen);
        progress.done.fetch_add(elements_of(item), std::memory_order_relaxed);
    }, report);

    ReplayResult result;
    for (std::size_t k = 0; k < mine.size(); ++k) {
        std::move(rows[k].begin(), rows[k].end(), std::back_inserter(result.rows));
        result.histograms.push_back({options.steps[mine[k] / tensors], options.tensors[mine[k] % tensors], histograms[mine[k]]});
    }
    return result;
}

}  // namespace apscope
