#include "analysis/summary/comparison.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <string>

#include "core/fixed_log2.h"

namespace apscope::detail {

namespace {

constexpr std::size_t part_count = [] {
    std::size_t count = 0;
    for (const NumberColumnFacts& column : number_columns) count += column.pools == Pools::part;
    return count;
}();

// The columns for the shares of the squared error, one per part: share_underflow for
// split_underflow.
std::vector<std::string> share_names() {
    std::vector<std::string> names;
    for (const NumberColumnFacts& column : number_columns) {
        if (column.pools == Pools::part)
            names.push_back("share" + std::string(column.name.substr(column.name.find('_'))));
    }
    return names;
}

double log2_of(double ratio) {
    if (ratio == 0.0) return -infinity;
    return std::isfinite(ratio) ? fixed_log2(ratio) : ratio;
}

// a / b; 1 if both errors are equal, also if both are 0 or infinite.
double ratio_of(double a, double b) { return a == b ? 1.0 : a / b; }

double median(std::vector<double> values) {
    if (values.empty()) return missing;
    const std::size_t middle = values.size() / 2;
    std::ranges::sort(values);
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// The sums of one scheme over the cells of a row.
struct SideSums {
    Loss loss;
    double cosine = 0, layers = 0, exact_error = 0, sent_error = 0, underflow_reduced = 0,
           nonzero_reduced = 0, step_nmse = 0, overflowed = 0;
    PresentSum underflow_wire, nonzero_wire;
    std::vector<double> parts = std::vector<double>(part_count, 0.0);

    void add(const Cell& cell) {
        loss.add(cell.loss);
        cosine += cell.cosine;
        layers += cell.layers;
        exact_error += cell.exact_error;
        sent_error += cell.sent_error;
        underflow_reduced += cell.underflow_reduced;
        nonzero_reduced += cell.nonzero_reduced;
        underflow_wire.add(cell.underflow_wire);
        nonzero_wire.add(cell.nonzero_wire);
        for (std::size_t p = 0; p < part_count; ++p) parts[p] += cell.parts[p];
    }
    // If the error is infinite, its parts have no shares.
    double share(double part) const {
        return quotient(part, loss.overflow > 0 ? missing : sent_error);
    }
};

// The numbers from which one row is computed: the error ratio of each step, counts of wins, losses
// and ties, the sum of logs of the cells' error ratios, and the sums of both schemes.
struct RowSums {
    std::vector<double> ratios;
    double wins = 0, losses = 0, ties = 0, logs = 0, cells = 0;
    SideSums a, b;
};

Groups steps_of(const SchemePair& pair, const Groups& rows) {
    std::int32_t levels = 0;
    for (const SchemePair::Place& place : pair.places) levels = std::max(levels, place.step + 1);
    return rows.divided(static_cast<std::size_t>(levels),
                        [&](std::size_t i) { return pair.places[i].step; });
}

// The losses of groups of cells, for one scheme.
std::vector<Loss> losses_of(std::span<const Cell> cells, const Groups& groups) {
    std::vector<Loss> losses(groups.size());
    for (std::size_t i = 0; i < cells.size(); ++i) losses[groups.of_row[i]].add(cells[i].loss);
    return losses;
}

std::vector<RowSums> sums_of(const SchemePair& pair, const Groups& groups, std::size_t count) {
    std::vector<RowSums> sums(count);
    const Groups steps = steps_of(pair, groups);
    const std::vector<std::uint32_t> owner = steps.owners(groups);
    const std::vector<Loss> losses_a = losses_of(pair.a, steps),
                            losses_b = losses_of(pair.b, steps);
    for (std::size_t s = 0; s < steps.size(); ++s) {
        RowSums& row = sums[owner[s]];
        row.a.overflowed += losses_a[s].overflow > 0;
        row.b.overflowed += losses_b[s].overflow > 0;
        const double a = losses_a[s].ranking_nmse(), b = losses_b[s].ranking_nmse();
        if (std::isnan(a) || std::isnan(b)) continue;
        row.wins += a < b;
        row.losses += a > b;
        row.ties += a == b;
        row.ratios.push_back(ratio_of(a, b));
        row.a.step_nmse += a;
        row.b.step_nmse += b;
    }
    for (std::size_t i = 0; i < pair.places.size(); ++i) {
        RowSums& row = sums[groups.of_row[i]];
        row.a.add(pair.a[i]);
        row.b.add(pair.b[i]);
        const double a = pair.a[i].loss.ranking_nmse(), b = pair.b[i].loss.ranking_nmse();
        if (std::isnan(a) || std::isnan(b)) continue;
        row.logs += log2_of(ratio_of(a, b));
        ++row.cells;
    }
    return sums;
}

void add_rows(Figures& f, const std::vector<RowSums>& sums) {
    const std::size_t count = sums.size();
    const auto steps = [&](std::size_t i) { return static_cast<double>(sums[i].ratios.size()); };
    f.add_integers("steps", count, steps);
    f.add_integers("wins", count, [&](std::size_t i) { return sums[i].wins; });
    f.add_integers("losses", count, [&](std::size_t i) { return sums[i].losses; });
    f.add_integers("ties", count, [&](std::size_t i) { return sums[i].ties; });
    f.add("median_ratio", count, [&](std::size_t i) { return median(sums[i].ratios); });
    f.add("worst_ratio", count, [&](std::size_t i) {
        return sums[i].ratios.empty() ? missing : std::ranges::max(sums[i].ratios);
    });
    f.add("geometric_ratio", count,
          [&](std::size_t i) { return fixed_exp2(quotient(sums[i].logs, sums[i].cells)); });
    const auto both = [&](const std::string& name, auto value) {
        for (const bool first : {true, false}) {
            const auto one = [&](std::size_t i) {
                return value(first ? sums[i].a : sums[i].b, steps(i));
            };
            if (name == "overflowed") f.add_integers(name + (first ? "_a" : "_b"), count, one);
            else f.add(name + (first ? "_a" : "_b"), count, one);
        }
    };
    both("error_over_noise", [](const SideSums& s, double) { return s.loss.over_noise(); });
    both("step_nmse", [](const SideSums& s, double n) { return quotient(s.step_nmse, n); });
    both("nmse", [](const SideSums& s, double) { return s.loss.nmse(); });
    both("underflow_wire", [](const SideSums& s, double) {
        return quotient(s.underflow_wire.value(), s.nonzero_wire.value());
    });
    both("underflow_reduced", [](const SideSums& s, double) {
        return quotient(s.underflow_reduced, s.nonzero_reduced);
    });
    both("cosine", [](const SideSums& s, double) { return quotient(s.cosine, s.layers); });
    both("overflowed", [](const SideSums& s, double) { return s.overflowed; });
    both("accumulation",
         [](const SideSums& s, double) { return s.share(s.sent_error - s.exact_error); });
    const std::vector<std::string> names = share_names();
    for (std::size_t p = 0; p < part_count; ++p)
        both(names[p], [p](const SideSums& s, double) { return s.share(s.parts[p]); });
}

}  // namespace

Compared compared(const SchemePair& pair, bool layers) {
    Compared out;
    Groups groups(pair.places.size());
    std::vector<RowSums> sums = sums_of(pair, groups, 1);
    out.tensor.emplace_back();
    if (layers) {
        std::int32_t levels = 0;
        for (const SchemePair::Place& place : pair.places)
            levels = std::max(levels, place.tensor + 1);
        groups = groups.divided(static_cast<std::size_t>(levels),
                                [&](std::size_t i) { return pair.places[i].tensor; });
        for (const std::uint32_t i : groups.first) out.tensor.emplace_back(pair.places[i].tensor);
        for (RowSums& row : sums_of(pair, groups, groups.size())) sums.push_back(std::move(row));
    }
    add_rows(out.figures, sums);
    return out;
}

ComparedSteps compared_steps(const SchemePair& pair, const RowTable& table) {
    const Groups steps = steps_of(pair, Groups(pair.places.size()));
    const std::vector<Loss> losses_a = losses_of(pair.a, steps),
                            losses_b = losses_of(pair.b, steps);
    struct Counts {
        double won = 0, lost = 0, level = 0;
    };
    std::vector<Counts> counts(steps.size());
    for (std::size_t i = 0; i < pair.places.size(); ++i) {
        Counts& count = counts[steps.of_row[i]];
        const double a = pair.a[i].loss.ranking_nmse(), b = pair.b[i].loss.ranking_nmse();
        count.won += a < b;
        count.lost += a > b;
        count.level += a == b;
    }
    const auto number = [&](std::size_t s) {
        return table.steps[static_cast<std::size_t>(pair.places[steps.first[s]].step)];
    };
    std::vector<std::size_t> order;
    for (std::size_t s = 0; s < steps.size(); ++s) {
        if (!std::isnan(losses_a[s].ranking_nmse()) && !std::isnan(losses_b[s].ranking_nmse()))
            order.push_back(s);
    }
    std::ranges::sort(order, {}, number);
    ComparedSteps out;
    for (const std::size_t s : order) out.step.push_back(number(s));
    Figures& f = out.figures;
    const std::size_t rows = order.size();
    f.add("nmse_a", rows, [&](std::size_t i) { return losses_a[order[i]].ranking_nmse(); });
    f.add("nmse_b", rows, [&](std::size_t i) { return losses_b[order[i]].ranking_nmse(); });
    f.add_integers("layers_won", rows, [&](std::size_t i) { return counts[order[i]].won; });
    f.add_integers("layers_lost", rows, [&](std::size_t i) { return counts[order[i]].lost; });
    f.add_integers("layers_level", rows, [&](std::size_t i) { return counts[order[i]].level; });
    return out;
}

Figures compared_cells(const SchemePair& pair) {
    Figures f;
    const std::size_t rows = pair.places.size();
    f.add("overflow_a", rows, [&](std::size_t i) { return pair.a[i].loss.overflow; });
    f.add("overflow_b", rows, [&](std::size_t i) { return pair.b[i].loss.overflow; });
    f.add("nmse_a", rows, [&](std::size_t i) { return pair.a[i].loss.ranking_nmse(); });
    f.add("nmse_b", rows, [&](std::size_t i) { return pair.b[i].loss.ranking_nmse(); });
    f.add("ratio", rows, [&](std::size_t i) { return ratio_of(f("nmse_a", i), f("nmse_b", i)); });
    return f;
}

}  // namespace apscope::detail
