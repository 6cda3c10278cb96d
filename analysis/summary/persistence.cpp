#include "analysis/summary/persistence.h"

#include <array>
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

// The windows of one length in a group, layers added up.
struct OfLength {
    std::map<std::int64_t, Ratio> by_step;  // squared errors and noise, by the first step
    double log2 = 0, blocks = 0;

    double pooled() const {
        Ratio sum{0, 0};
        for (const auto& [step, one] : by_step) {
            sum.numerator += one.numerator;
            sum.denominator += one.denominator;
        }
        return quotient(sum.numerator, sum.denominator);
    }
    double typical() const { return fixed_exp2(quotient(log2, blocks)); }
    Interval interval() const {
        std::vector<Ratio> windows;
        for (const auto& [step, one] : by_step) windows.push_back(one);
        Interval found = interval_of_ratio(windows);
        if (found.low < 0) found.low = 0;
        return found;
    }
};
using OfGroup = std::array<OfLength, window_lengths.size()>;

// The codes of the texts of one table in another; -1 where that has none.
std::vector<std::int32_t> codes_in(const std::vector<std::string>& texts,
                                   const std::vector<std::string>& others) {
    std::unordered_map<std::string_view, std::int32_t> places;
    for (const std::string& other : others)
        places.try_emplace(other, static_cast<std::int32_t>(places.size()));
    std::vector<std::int32_t> codes;
    for (const std::string& text : texts) {
        const auto found = places.find(text);
        codes.push_back(found == places.end() ? -1 : found->second);
    }
    return codes;
}

std::vector<OfGroup> sums_of(const RowTable& table, const ChosenRows& rows, const Groups& groups,
                             const WindowTable& windows) {
    // The groups that a reduction of a layer belongs to: one with a reduction of its own counts for
    // several topologies.
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
        const auto found = owners.find({of(trace, w.trace), of(scheme, w.scheme),
                                        of(tensor, w.tensor), of(topology, w.topology)});
        if (found == owners.end()) continue;
        for (std::size_t l = 0; l < window_lengths.size(); ++l) {
            if (window_lengths[l] != w.steps) continue;
            for (const std::uint32_t group : found->second) {
                OfLength& sum = sums[group][l];
                Ratio& step = sum.by_step.try_emplace(w.step, Ratio{0, 0}).first->second;
                step.numerator += w.squared_error;
                step.denominator += w.noise;
                sum.log2 += w.log2_over_noise;
                sum.blocks += static_cast<double>(w.noise_blocks);
            }
        }
    }
    return sums;
}

}  // namespace

void add_persistence(Figures& figures, const RowTable& table, const ChosenRows& rows,
                     const Groups& groups, const WindowTable* windows, double noise_factor) {
    const std::vector<OfGroup> sums = windows == nullptr ? std::vector<OfGroup>(groups.size())
                                                         : sums_of(table, rows, groups, *windows);
    for (std::size_t l = 0; l < window_lengths.size(); ++l) {
        const std::string name = "persistence_" + std::to_string(window_lengths[l]);
        std::vector<Interval> intervals;
        for (const OfGroup& group : sums) intervals.push_back(group[l].interval());
        figures.add(name, sums.size(),
                    [&](std::size_t g) { return sums[g][l].pooled() * noise_factor; });
        figures.add(name + "_low", sums.size(),
                    [&](std::size_t g) { return intervals[g].low * noise_factor; });
        figures.add(name + "_high", sums.size(),
                    [&](std::size_t g) { return intervals[g].high * noise_factor; });
        figures.add("typical_" + name, sums.size(),
                    [&](std::size_t g) { return sums[g][l].typical() * noise_factor; });
    }
}

}  // namespace apscope::detail
