#include "analysis/replay/work_list.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "emulation/machine/parallel.h"
#include "emulation/schemes/shared/buckets.h"
#include "emulation/schemes/two_phase_bucket.h"

namespace apscope::detail {

namespace {

// All (step, tensor) pairs, in groups of steps whose files stay open meanwhile; in each group, the
// largest tensors first. Consecutive pairs belong to different steps, so threads rarely need the
// same file at once.
std::vector<std::size_t> in_groups(std::span<const std::size_t> by_size, std::size_t steps,
                                   std::size_t group) {
    std::vector<std::size_t> order;
    order.reserve(steps * by_size.size());
    for (std::size_t first = 0; first < steps; first += group) {
        for (const std::size_t k : by_size) {
            for (std::size_t t = first; t < std::min(first + group, steps); ++t)
                order.push_back(t * by_size.size() + k);
        }
    }
    return order;
}

}  // namespace

WorkList::WorkList(const Manifest& manifest, const ReplayOptions& options,
                   std::span<const ResolvedScheme> schemes)
    : manifest_(manifest), options_(options), schemes_(schemes) {
    std::vector<std::size_t> by_size(tensors());
    std::iota(by_size.begin(), by_size.end(), std::size_t{0});
    std::stable_sort(by_size.begin(), by_size.end(),
                     [&](std::size_t a, std::size_t b) { return elements(a) > elements(b); });
    constexpr std::size_t files = 128;  // half of the files that a trace keeps open
    const std::size_t open =
        std::max<std::size_t>(1, files / static_cast<std::size_t>(options.workers));
    order_ = in_groups(by_size, steps(), open);
    // In pass 2 a group also has few rows, because the rows of a step stay in memory until all of
    // its items are done.
    constexpr std::size_t rows = 32768;
    const std::size_t of_step =
        tensors() * options.schemes.size() * (options.topologies.size() + 2);
    group_ = std::clamp<std::size_t>(of_step == 0 ? open : rows / of_step, 1, open);

    std::vector<std::size_t> ordered;
    for (const ResolvedScheme& scheme : schemes) {
        if (in_order(scheme) && std::ranges::find(ordered, scheme.requested) == ordered.end())
            ordered.push_back(scheme.requested);
    }
    for (const std::size_t k : by_size) {
        for (const std::size_t s : ordered) {
            if (k % options.shards == options.shard) items_.push_back({k, {}, s});
        }
    }
    for (const std::size_t i : in_groups(by_size, steps(), group_)) {
        if (i % options.shards == options.shard)
            items_.push_back({i % tensors(), i / tensors(), 0});
    }
}

bool WorkList::includes(const WorkItem& item, const ResolvedScheme& scheme,
                        std::size_t step) const {
    if (!scheme.has_item(step * tensors() + item.tensor)) return false;
    return item.step ? !in_order(scheme) : in_order(scheme) && scheme.requested == item.requested;
}

template <class Visit>
void WorkList::for_visits(const WorkItem& item, Visit&& visit) const {
    for (std::size_t t = item.step.value_or(0); t < (item.step ? *item.step + 1 : steps()); ++t) {
        for (std::size_t s = 0; s < schemes_.size(); ++s) {
            if (includes(item, schemes_[s], t)) visit(s, t);
        }
    }
}

std::size_t WorkList::visits(const WorkItem& item) const {
    std::size_t values = 0;
    for_visits(item, [&](std::size_t, std::size_t) {
        values += elements(item.tensor) * static_cast<std::size_t>(options_.workers);
    });
    return values;
}

// The bytes of the errors that are added up over steps, for all reductions at once.
std::size_t WorkList::window_bytes(const WorkItem& item) const {
    if (!options_.persistence || item.step || manifest_.stage != "local") return 0;
    bool crosses = false, own_reduction = false;
    for (const ResolvedScheme& scheme : schemes_) {
        if (scheme.requested != item.requested) continue;
        (scheme.parts().encoding.crosses_topologies() || scheme.composed ? crosses
                                                                         : own_reduction) = true;
    }
    const std::size_t rows = 1 + own_reduction + (crosses ? options_.topologies.size() : 0);
    return rows * ErrorWindows::bytes(elements(item.tensor));
}

std::size_t WorkList::at_once(std::size_t s, std::size_t t, std::size_t k) const {
    const ResolvedScheme& scheme = schemes_[s];
    if (!scheme.parts().whole_shards) return elements(k);
    const auto elements_in_bucket = [&](std::size_t i) {
        return scheme.has_item(t * tensors() + i) ? std::optional(elements(i)) : std::nullopt;
    };
    const Bucket bucket =
        bucket_around(scheme.parts(), k, tensors(), elements_in_bucket, 1, {},
                      [](std::size_t) { return std::make_shared<ArrayTotals>(); });
    return elements_of_shards(bucket, elements(k), static_cast<std::size_t>(options_.workers));
}

std::size_t WorkList::most_at_once() const {
    std::size_t largest = 0, all = 0;
    for (std::size_t k = 0; k < tensors(); ++k) {
        largest = std::max(largest, elements(k));
        all += elements(k);
    }
    const bool whole_shards = std::ranges::any_of(
        schemes_, [](const ResolvedScheme& s) { return s.parts().whole_shards; });
    return whole_shards ? all : largest;
}

void WorkList::find_costs() {
    std::vector<Topology> topologies;
    for (const Topology& t : options_.topologies) {
        if (t.kind != Topology::Kind::exact) topologies.push_back(t);
    }
    const bool reduces = manifest_.stage == "local";
    if (!reduces) topologies.clear();
    const std::size_t largest = most_at_once();
    while (costs_.size() < schemes_.size())
        costs_.push_back(
            cost_of(schemes_[costs_.size()], topologies, reduces, options_.draws, largest));
}

WorkList::Needs WorkList::needs(std::span<const WorkItem> items, std::size_t budget) {
    Needs needs;
    needs.items.resize(items.size());
    // If no scheme can come near the budget, nothing is measured.
    constexpr double copies = 128.0;
    const double values = static_cast<double>(most_at_once()) * options_.workers,
                 draws = options_.draws;
    std::size_t windows = 0;
    for (const WorkItem& item : items) windows = std::max(windows, window_bytes(item));
    if (!options_.keeps_states &&
        thread_count(options_.threads) *
                (copies * draws * sizeof(double) * (values + 4096.0 * options_.workers) +
                 static_cast<double>(windows)) <
            static_cast<double>(budget)) {
        return needs;
    }
    find_costs();
    // The rows are the gradients, mapped or widened, and the weights and the full-batch gradient if
    // the scheme needs them. Reused buffers may be a quarter longer than requested.
    const auto need_of = [&](std::size_t s, std::size_t n) {
        const SchemeParts& parts = schemes_[s].parts();
        const std::size_t rows = static_cast<std::size_t>(options_.workers) + parts.needs.size();
        const std::size_t most = costs_[s].most.of(n, options_.workers) +
                                 (parts.encoding.tables ? parts.encoding.tables(n) : 0);
        return rows * n * sizeof(float) + noise_blocks_of(n) * sizeof(double) + most + most / 4;
    };
    std::size_t most = 0, worst = 0, worst_scheme = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
        std::size_t state = 0;
        const std::size_t of_windows = window_bytes(items[i]);
        for_visits(items[i], [&](std::size_t s, std::size_t t) {
            const std::size_t n = at_once(s, t, items[i].tensor), need = need_of(s, n) + of_windows;
            needs.items[i] = std::max(needs.items[i], need);
            if (need > most) {
                most = need;
                worst = i;
                worst_scheme = s;
            }
            if (options_.keeps_states && !items[i].step)
                state = std::max(state, costs_[s].state.of(n, options_.workers));
        });
        needs.state += state;
    }
    if (most + needs.state <= budget) return needs;
    const std::string& tensor = manifest_.tensors[options_.tensors[items[worst].tensor]].name;
    throw std::invalid_argument(
        "memory " + memory_text(budget) + " is too little: tensor '" + tensor + "' with scheme '" +
        schemes_[worst_scheme].scheme->spec + "' takes " + memory_text(most) + " at once" +
        (needs.state > 0 ? ", and the states that are kept " + memory_text(needs.state)
                         : std::string()) +
        "; give at least " + memory_text(most + needs.state) + ", or fewer workers");
}

std::vector<double> WorkList::seconds() {
    find_costs();
    std::vector<double> seconds(items_.size());
    for (std::size_t i = 0; i < items_.size(); ++i) {
        for_visits(items_[i], [&](std::size_t s, std::size_t t) {
            const auto n = static_cast<double>(at_once(s, t, items_[i].tensor));
            seconds[i] += n * options_.workers * costs_[s].seconds_a_value;
        });
    }
    return seconds;
}

std::string memory_text(std::size_t bytes) {
    constexpr std::array<const char*, 4> units{"K", "M", "G", "T"};
    double amount = static_cast<double>(bytes) / 1024.0;
    std::size_t unit = 0;
    for (; amount >= 1024.0 && unit + 1 < units.size(); ++unit) amount /= 1024.0;
    const auto tenths = static_cast<std::uint64_t>(std::ceil(amount * 10.0));
    return std::to_string(tenths / 10) +
           (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10)) + units[unit];
}

}  // namespace apscope::detail
