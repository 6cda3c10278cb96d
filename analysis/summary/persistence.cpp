#include "analysis/summary/persistence.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "analysis/statistics/error_windows.h"
#include "analysis/summary/intervals.h"
#include "analysis/summary/losses.h"
#include "core/fixed_exp2.h"

namespace apscope::detail {

namespace {

// The sums of one window over the layers of a group.
struct OfWindow {
    Ratio error{0, 0};           // squared errors and noise
    UpdateSums update{0, 0, 0};  // NaN if the optimizer is unknown
    bool overflows = false;

    // 1 - cosine of the two updates; 1 if a result overflows.
    std::optional<double> update_loss() const {
        if (overflows && !std::isnan(update.product)) return 1.0;
        const std::optional<double> cosine = update.cosine();
        return cosine ? std::optional(1.0 - *cosine) : std::nullopt;
    }
};

// The quotient of sums over the windows, and its interval; no value is below 0.
struct Estimate {
    double value;
    Interval interval;

    explicit Estimate(const std::vector<Ratio>& windows) : interval(interval_of_ratio(windows)) {
        Ratio sum{0, 0};
        for (const Ratio& one : windows) {
            sum.numerator += one.numerator;
            sum.denominator += one.denominator;
        }
        value = quotient(sum.numerator, sum.denominator);
        if (value < 0) value = 0;
        if (interval.low < 0) interval.low = 0;
    }
};

// The windows of one length in a group.
struct OfLength {
    std::map<std::int64_t, OfWindow> by_step;  // by the window's first step
    double log2 = 0, blocks = 0;

    Estimate persistence() const {
        std::vector<Ratio> windows;
        for (const auto& [step, one] : by_step) windows.push_back(one.error);
        return Estimate(windows);
    }
    double typical() const { return fixed_exp2(quotient(log2, blocks)); }
    Estimate update_loss() const {
        std::vector<Ratio> windows;
        for (const auto& [step, one] : by_step)
            if (const auto loss = one.update_loss()) windows.push_back({*loss, 1.0});
        return Estimate(windows);
    }
};
using OfGroup = std::array<OfLength, window_lengths.size()>;

// For each text of one table, its code in another table; -1 if the other table does not have it.
std::vector<std::int32_t> codes_in(const std::vector<std::string>& texts,
                                   const std::vector<std::string>& others) {
    std::unordered_map<std::string_view, std::int32_t> places;
    for (const std::string& other : others)
        places.try_emplace(other, static_cast<std::int32_t>(places.size()));
    std::vector<std::int32_t> codes;
    for (const std::string& text : texts) {
        const auto match = places.find(text);
        codes.push_back(match == places.end() ? -1 : match->second);
    }
    return codes;
}

// The sums of a layer's updates. LARS gives the updates of all layers the same length.
UpdateSums update_of(const WindowRow& window, std::optional<Optimizer> optimizer) {
    if (optimizer == Optimizer::sgd) return window.sgd;
    if (optimizer == Optimizer::adam) return window.adam;
    if (optimizer == Optimizer::lars) return window.sgd.of_unit_length();
    return {};
}

std::vector<OfGroup> sums_of(const RowTable& table, const ChosenRows& rows, const Groups& groups,
                             const WindowTable& windows, std::optional<Optimizer> requested) {
    // The groups of each layer's reductions: a layer with its own reduction may count for several
    // topologies.
    using Key = std::array<std::int32_t, 4>;
    std::map<Key, std::vector<std::uint32_t>> owners;
    Groups cells = groups;
    for (const Codes* column :
         {static_cast<const Codes*>(&table.tensor), static_cast<const Codes*>(&table.topology)})
        cells = divided(cells, rows, *column);
    for (const std::uint32_t i : cells.first) {
        const std::uint32_t row = rows.row[i];
        owners[{table.trace.of_row[row], table.scheme.of_row[row], table.tensor.of_row[row],
                table.topology.of_row[row]}]
            .push_back(groups.of_row[i]);
    }
    const auto trace = codes_in(windows.traces, table.trace.names),
               scheme = codes_in(windows.schemes, table.scheme.names),
               tensor = codes_in(windows.tensors, table.tensor.names),
               topology = codes_in(windows.topologies, table.topology.names);
    const auto of = [](const std::vector<std::int32_t>& codes, std::int32_t code) {
        return codes[static_cast<std::size_t>(code)];
    };
    std::vector<OfGroup> sums(groups.size());
    for (const WindowRow& w : windows.rows) {
        const auto match = owners.find({of(trace, w.trace), of(scheme, w.scheme),
                                        of(tensor, w.tensor), of(topology, w.topology)});
        if (match == owners.end()) continue;
        const UpdateSums update = update_of(
            w, requested ? requested : windows.optimizers[static_cast<std::size_t>(w.trace)]);
        for (std::size_t l = 0; l < window_lengths.size(); ++l) {
            if (window_lengths[l] != w.steps) continue;
            for (const std::uint32_t group : match->second) {
                OfLength& sum = sums[group][l];
                OfWindow& window = sum.by_step[w.step];
                window.error.numerator += w.squared_error;
                window.error.denominator += w.noise;
                window.update.add(update);
                window.overflows = window.overflows || std::isinf(w.squared_error);
                sum.log2 += w.log2_over_noise;
                sum.blocks += static_cast<double>(w.noise_blocks);
            }
        }
    }
    return sums;
}

}  // namespace

void add_persistence(Figures& figures, const RowTable& table, const ChosenRows& rows,
                     const Groups& groups, const WindowTable* windows, double noise_factor,
                     std::optional<Optimizer> optimizer) {
    const std::vector<OfGroup> sums = windows == nullptr
                                          ? std::vector<OfGroup>(groups.size())
                                          : sums_of(table, rows, groups, *windows, optimizer);
    const auto add = [&](const std::string& name, const std::vector<Estimate>& of, double factor) {
        const auto column = [&](const char* end, auto get) {
            figures.add(name + end, of.size(), [&](std::size_t g) { return get(of[g]) * factor; });
        };
        column("", [](const Estimate& e) { return e.value; });
        column("_low", [](const Estimate& e) { return e.interval.low; });
        column("_high", [](const Estimate& e) { return e.interval.high; });
    };
    for (std::size_t l = 0; l < window_lengths.size(); ++l) {
        const std::string name = "persistence_" + std::to_string(window_lengths[l]);
        std::vector<Estimate> persistence, update_loss;
        for (const OfGroup& group : sums) {
            persistence.push_back(group[l].persistence());
            update_loss.push_back(group[l].update_loss());
        }
        add(name, persistence, noise_factor);
        figures.add("typical_" + name, sums.size(),
                    [&](std::size_t g) { return sums[g][l].typical() * noise_factor; });
        if (window_lengths[l] > 1)
            add("update_loss_" + std::to_string(window_lengths[l]), update_loss, 1.0);
    }
}

std::vector<std::string> window_columns(std::string_view figure) {
    Figures empty;
    add_persistence(empty, {}, {}, Groups(0), nullptr, 1.0, {});
    std::vector<std::string> names;
    for (const Figures::Column& column : empty.columns())
        if (column.name.find(figure) != std::string::npos) names.push_back(column.name);
    return names;
}

}  // namespace apscope::detail
