#include "analysis/summary/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

#include "analysis/statistics/notes.h"
#include "analysis/summary/intervals.h"
#include "analysis/summary/losses.h"
#include "analysis/summary/zero_layers.h"
#include "emulation/allreduce/topology.h"

namespace apscope::detail {

namespace {

using C = NumberColumn;

// Marks rows with gradients that are NaN or infinite; a skipped row is recognised by its counts.
std::vector<std::uint8_t> nonfinite_rows(const RowTable& table) {
    const auto nan = table[C::nan], infinite = table[C::infinite], count = table[C::count],
               counted = table[C::counted];
    std::vector<std::uint8_t> odd(table.rows);
    for (std::size_t i = 0; i < table.rows; ++i) {
        odd[i] =
            table.skipped[i] ? count[i] > counted[i] : or_zero(nan[i]) + or_zero(infinite[i]) > 0;
    }
    return odd;
}

Groups by_columns(const RowTable& table, std::initializer_list<const Codes*> columns,
                  std::optional<Part> part) {
    Groups groups(table.rows);
    const auto divide = [&](const Codes& column) {
        groups = groups.divided(column.levels, [&](std::size_t i) { return column.of_row[i]; });
    };
    for (const Codes* column : columns) divide(*column);
    if (part) divide(part_of(table, *part));
    return groups;
}

// The columns `underflow` and `nonzero`, summed over wire rows.
struct Underflow {
    PresentSum underflow, nonzero;
    double rate() const { return quotient(underflow.value(), nonzero.value()); }
};

// For each row of a summary, the rate of underflow of the wire rows for its topology.
std::vector<double> on_the_wire(const RowTable& table, const Summary& summary,
                                std::optional<Part> part) {
    const Groups groups = by_columns(table, {&table.trace, &table.scheme}, part);
    const auto underflow = table[C::underflow], nonzero = table[C::nonzero];
    std::map<std::string_view, std::vector<Underflow>> by_topology;  // per topology and group
    for (const std::string& topology : summary.topology) {
        const auto [sums, is_new] = by_topology.try_emplace(topology, groups.size());
        if (!is_new) continue;
        const std::vector<std::uint8_t> sent = sent_for(table, topology);
        for (std::size_t i = 0; i < table.rows; ++i) {
            if (!sent[i] || table.skipped[i]) continue;
            sums->second[groups.of_row[i]].underflow.add(underflow[i]);
            sums->second[groups.of_row[i]].nonzero.add(nonzero[i]);
        }
    }
    std::vector<double> rates;
    for (std::size_t g = 0; g < summary.first.size(); ++g)
        rates.push_back(
            by_topology.at(summary.topology[g])[groups.of_row[summary.first[g]]].rate());
    return rates;
}

// The numbers of steps with gradients that are NaN or infinite, for each row of a summary.
std::vector<double> nonfinite_steps(const RowTable& table, std::span<const std::uint32_t> first,
                                    std::optional<Part> part) {
    const std::vector<std::uint8_t> odd = nonfinite_rows(table);
    const Groups places = by_columns(table, {&table.trace}, part);
    const Groups steps =
        places.divided(table.step.levels, [&](std::size_t i) { return table.step.of_row[i]; });
    std::vector<std::uint8_t> seen(steps.size(), 0);
    for (std::size_t i = 0; i < table.rows; ++i) seen[steps.of_row[i]] |= odd[i];
    const std::vector<std::uint32_t> owner = steps.owners(places);
    std::vector<double> counts(places.size(), 0.0), result;
    for (std::size_t s = 0; s < steps.size(); ++s) counts[owner[s]] += seen[s];
    for (const std::uint32_t row : first) result.push_back(counts[places.of_row[row]]);
    return result;
}

// The sums of one row of the summary over the table's rows.
struct Sums {
    Loss total;
    PresentSum error, reference, overflow;
    Underflow underflow;
    double cosines = 0, signed_error = 0, absolute = 0, variance = 0, volumes = 0, elements = 0;
    double losses = 0;  // the number of rows with a loss
    double worst_nmse = 0;
    std::optional<std::uint32_t> worst;
    bool unmeasured = false;  // the NMSE of a row is NaN, so the largest NMSE is unknown

    void add_worst(std::uint32_t row, double nmse) {
        if (std::isnan(nmse)) unmeasured = true;
        if (worst && !(nmse > worst_nmse)) return;
        worst = row;
        worst_nmse = nmse;
    }
};

// Totals of one row of the summary over its steps.
struct StepTotals {
    double nmse = 0, with_nmse = 0;  // sum of the steps' NMSE; number of steps with one
    double over_noise = 0,
           with_noise = 0;  // sum of their error over noise; number of steps with one
    double skipped = 0, overflowed = 0, gaps = 0;  // numbers of steps
};

// The lost gains (Loss::lost_gain) of the layers of a summary's row, each over all steps, added up.
struct LostGain {
    double sum = 0, layers = 0,
           lost = 0;  // number of layers with a gain below one half
    double mean() const { return quotient(sum, layers); }
};

// One row of the summary, as the values of summary_figures.inc refer to it.
struct Group {
    Sums rows;
    StepTotals steps;
    LostGain layers;
    double noise_factor, underflow_wire, nonfinite;
    bool is_wire = false;
    Interval typical = {}, pooled = {}, gain = {};  // typical: factors of `over_noise`

    double over_noise() const { return rows.total.over_noise() * noise_factor; }
    double pooled_over_noise() const {
        return quotient(steps.over_noise, steps.with_noise) * noise_factor;
    }
    double worst_nmse() const { return rows.worst && !rows.unmeasured ? rows.worst_nmse : missing; }
    double underflow_reduced() const { return is_wire ? missing : rows.underflow.rate(); }
    double nmse() const {
        if (std::isnan(rows.total.reference)) return missing;
        return nmse_of_sums(rows.error.value(), rows.reference.value(), rows.overflow.value());
    }
};

// Marks the steps at which a row has the note that the scheme's memory is of an earlier step.
std::vector<std::uint8_t> steps_after_gaps(const RowTable& table, const ChosenRows& rows,
                                           const Groups& steps) {
    std::vector<std::uint8_t> result(steps.size(), 0), such;
    if (table.note.of_row.empty()) return result;
    for (const std::string& note : table.note.names)
        such.push_back(note.find(after_gap) != std::string::npos);
    for (std::size_t i = 0; i < rows.size(); ++i)
        result[steps.of_row[i]] |= such[static_cast<std::size_t>(table.note.of_row[rows.row[i]])];
    return result;
}

std::vector<LostGain> lost_gains(const RowTable& table, const ChosenRows& rows,
                                 const Groups& groups, const std::vector<std::uint8_t>& left_out) {
    const RowLosses losses(table);
    const Groups layers = divided(groups, rows, table.tensor);
    std::vector<Loss> of_layer(layers.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (!left_out[rows.row[i]]) of_layer[layers.of_row[i]].add(losses[rows.row[i]]);
    const std::vector<std::uint32_t> owner = layers.owners(groups);
    std::vector<LostGain> result(groups.size());
    for (std::size_t l = 0; l < layers.size(); ++l) {
        if (!of_layer[l].exists()) continue;
        LostGain& gain = result[owner[l]];
        gain.sum += of_layer[l].lost_gain();
        ++gain.layers;
        gain.lost += of_layer[l].is_lost();
    }
    return result;
}

// left_out: marks rows of layers that the cosine and the worst error ignore.
std::vector<Sums> sums_of(const RowTable& table, const ChosenRows& rows, const Groups& groups,
                          const Groups& steps, const std::vector<std::uint8_t>& left_out,
                          std::vector<Loss>& of_step) {
    const RowLosses losses(table);
    const auto cosine = table[C::cosine], counted = table[C::counted], count = table[C::count],
               expected = table[C::expected_variance], volume = table[C::volume],
               underflow = table[C::underflow], nonzero = table[C::nonzero],
               overflow = table[C::overflow];
    table.workers_of_rows();
    std::vector<Sums> sums(groups.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::uint32_t row = rows.row[i];
        const Loss loss = losses[row];
        Sums& s = sums[groups.of_row[i]];
        of_step[steps.of_row[i]].add(loss);
        s.total.add(loss);
        if (loss.exists() && !left_out[row]) {
            s.cosines += losses.cosine(row, loss, cosine);
            ++s.losses;
            s.add_worst(row, loss.nmse());
        }
        s.error.add(loss.error);
        s.reference.add(loss.reference);
        s.signed_error += losses.signed_error(row);
        s.absolute += losses.absolute(row);
        const double pairs = table.skipped[row] ? 0.0 : counted[row];
        s.variance += pairs == 0 ? 0.0 : expected[row] * pairs;
        const double elements = table.elements(row, count);
        s.volumes += elements == 0 ? 0.0 : volume[row] * elements;
        s.elements += elements;
        if (table.skipped[row]) continue;
        s.overflow.add(overflow[row]);
        s.underflow.underflow.add(underflow[row]);
        s.underflow.nonzero.add(nonzero[row]);
    }
    return sums;
}

// The intervals of a summary's rows, from the noise of the row's trace and of its layer, role or
// step.
class Intervals {
public:
    Intervals(const RowTable& table, std::optional<Part> part, const NoiseTable* noise)
        : table_(table), part_(part) {
        if (noise == nullptr) return;
        std::map<Key, std::vector<const NoiseRow*>> rows;
        for (const NoiseRow& row : noise->rows)
            rows[{noise->traces[static_cast<std::size_t>(row.trace)], name_of(*noise, row),
                  part == Part::step ? row.step : 0}]
                .push_back(&row);
        for (const auto& [key, rows_of_key] : rows) {
            const Noise one(rows_of_key);
            known_.try_emplace(key, one, one.typical());
        }
    }
    // The intervals of the typical and of the pooled error over noise, for a row of the table and
    // the ratios of its steps.
    std::pair<Interval, Interval> of(std::uint32_t row,
                                     std::vector<std::pair<std::int64_t, double>> ratios) const {
        Key key{table_.trace[row], "", 0};
        if (part_ == Part::layer) std::get<1>(key) = table_.tensor[row];
        if (part_ == Part::role) std::get<1>(key) = table_.role[row];
        if (part_ == Part::step)
            std::get<2>(key) = table_.steps[static_cast<std::size_t>(table_.step.of_row[row])];
        const auto match = known_.find(key);
        if (match == known_.end()) return {};
        return {match->second.second, match->second.first.pooled(std::move(ratios))};
    }

private:
    using Key = std::tuple<std::string, std::string, std::int64_t>;  // trace, name, step

    std::string name_of(const NoiseTable& noise, const NoiseRow& row) const {
        if (part_ == Part::layer) return noise.tensors[static_cast<std::size_t>(row.tensor)];
        if (part_ == Part::role) return noise.roles[static_cast<std::size_t>(row.role)];
        return "";
    }

    const RowTable& table_;
    std::optional<Part> part_;
    std::map<Key, std::pair<Noise, Interval>> known_;
};

}  // namespace

NonfinitePlaces nonfinite_places(const RowTable& table) {
    const std::vector<std::uint8_t> odd = nonfinite_rows(table);
    const Codes* columns[] = {&table.trace, &table.tensor, &table.step};
    Groups places(table.rows);
    for (const Codes* column : columns)
        places = places.divided(column->levels, [&](std::size_t i) { return column->of_row[i]; });
    std::vector<std::uint8_t> wire(places.size(), 0), seen(places.size(), 0);
    for (std::size_t i = 0; i < table.rows; ++i) {
        if (!table.wire[i]) continue;
        wire[places.of_row[i]] = 1;
        seen[places.of_row[i]] |= odd[i];
    }
    return {static_cast<std::size_t>(std::ranges::count(seen, 1)),
            static_cast<std::size_t>(std::ranges::count(wire, 1))};
}

std::optional<Part> parse_part(std::string_view name) {
    if (name == "layer") return Part::layer;
    if (name == "role") return Part::role;
    if (name == "step") return Part::step;
    return std::nullopt;
}

const Codes& part_of(const RowTable& table, Part part) {
    if (part == Part::layer) return table.tensor;
    if (part == Part::role) return table.role;
    return table.step;
}

Summary summarized(const RowTable& table, const ChosenRows& rows, std::optional<Part> part,
                   double batch_factor, const NoiseTable* noise, const WindowTable* windows,
                   std::optional<Optimizer> optimizer) {
    Groups groups = by_scheme_and_topology(table, rows);
    if (part) groups = divided(groups, rows, part_of(table, *part));
    const Groups steps = divided(groups, rows, table.step);
    const std::size_t count = groups.size();
    std::vector<Loss> of_step(steps.size());
    // In a summary by layer no layer is left out, however small its gradient is.
    const std::vector<std::uint8_t> left_out =
        part == Part::layer ? std::vector<std::uint8_t>(table.rows, 0) : rows_of_zero_layers(table);
    const std::vector<Sums> sums = sums_of(table, rows, groups, steps, left_out, of_step);
    const std::vector<std::uint8_t> gaps = steps_after_gaps(table, rows, steps);

    Summary out;
    for (const std::uint32_t i : groups.first) {
        out.first.push_back(rows.row[i]);
        out.topology.push_back(rows.topology_of(i));
    }
    std::vector<StepTotals> totals(count);
    // For each row of the summary and each of its steps, `ratios` has the number of the step and
    // the error over noise, and `products` the terms of the gain.
    std::vector<std::vector<std::pair<std::int64_t, double>>> ratios(count);
    std::vector<std::vector<Ratio>> products(count);
    const std::vector<std::uint32_t> owner = steps.owners(groups);
    for (std::size_t s = 0; s < steps.size(); ++s) {
        const Loss& loss = of_step[s];
        StepTotals& total = totals[owner[s]];
        total.skipped += loss.skipped > 0;
        total.overflowed += loss.overflow > 0;
        total.gaps += gaps[s];
        if (loss.noise != 0) {
            const std::int32_t step = table.step.of_row[rows.row[steps.first[s]]];
            ratios[owner[s]].emplace_back(table.steps[static_cast<std::size_t>(step)],
                                          loss.pooled_over_noise());
            total.over_noise += ratios[owner[s]].back().second;
            ++total.with_noise;
        }
        if (!loss.exists()) continue;
        total.nmse += loss.ranking_nmse();
        ++total.with_nmse;
        products[owner[s]].push_back({loss.product, loss.reference});
    }

    const std::vector<LostGain> lost = lost_gains(table, rows, groups, left_out);
    const std::vector<double> wire = on_the_wire(table, out, part),
                              odd = nonfinite_steps(table, out.first, part);
    const Intervals intervals(table, part, noise);
    std::vector<Group> of_row;
    for (std::size_t i = 0; i < count; ++i) {
        Group g{sums[i], totals[i], lost[i], batch_factor, wire[i], odd[i]};
        g.is_wire = out.topology[i].empty();
        std::tie(g.typical, g.pooled) = intervals.of(out.first[i], std::move(ratios[i]));
        for (double* end : {&g.pooled.middle, &g.pooled.low, &g.pooled.high}) *end *= batch_factor;
        if (totals[i].overflowed == 0) g.gain = interval_of_ratio(products[i]);
        of_row.push_back(g);
    }
#define APSCOPE_FIGURE(name, unit, section, page, value, says) \
    out.figures.add(#name, count, [&](std::size_t i) {         \
        const Group& g = of_row[i];                            \
        return value;                                          \
    });
#define APSCOPE_COUNT(name, unit, section, page, value, says)   \
    out.figures.add_integers(#name, count, [&](std::size_t i) { \
        const Group& g = of_row[i];                             \
        return value;                                           \
    });
#include "analysis/summary/summary_figures.inc"
    // Windows have several steps, so a summary by step has none.
    add_persistence(out.figures, table, rows, groups, part == Part::step ? nullptr : windows,
                    batch_factor, optimizer);

    for (const Sums& s : sums)
        out.worst.push_back(s.unmeasured ? std::optional<std::uint32_t>() : s.worst);
    out.format.resize(count);
    const Groups formats = divided(groups, rows, table.format);
    for (const std::uint32_t i : formats.first) {
        std::string& joined = out.format[groups.of_row[i]];
        const bool is_first = groups.first[groups.of_row[i]] == i;
        joined += (is_first ? "" : "+") + table.format[rows.row[i]];
    }
    return out;
}

std::vector<std::size_t> ranked(const RowTable& table, const Summary& summary) {
    const Figures& f = summary.figures;
    std::vector<std::size_t> order(summary.first.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<std::size_t> place(table.trace.levels, order.size());
    const auto trace = [&](std::size_t i) {
        return static_cast<std::size_t>(table.trace.of_row[summary.first[i]]);
    };
    for (const std::size_t i : order) place[trace(i)] = std::min(place[trace(i)], i);
    const auto before = [](double x, double y) {
        return x < y || (!std::isnan(x) && std::isnan(y));
    };
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        if (place[trace(a)] != place[trace(b)]) return place[trace(a)] < place[trace(b)];
        const bool ideal_a = summary.topology[a] == "exact",
                   ideal_b = summary.topology[b] == "exact";
        if (ideal_a != ideal_b) return ideal_b;
        for (const char* name : {"gaps", "overflowed", "lost_layers"}) {
            const bool has_a = f(name, a) > 0, has_b = f(name, b) > 0;
            if (has_a != has_b) return has_b;
        }
        for (const char* name : {"step_nmse", "error_over_noise"}) {
            if (before(f(name, a), f(name, b))) return true;
            if (before(f(name, b), f(name, a))) return false;
        }
        return false;
    });
    return order;
}

Breakdown broken_down(const RowTable& table, Part part, std::optional<std::string_view> topology,
                      double batch_factor, const NoiseTable* noise, const WindowTable* windows,
                      std::optional<Optimizer> optimizer) {
    const std::vector<std::string> topologies = topologies_in_order(table);
    const std::string requested = topology ? canonical_topology(*topology) : "";
    if (topology && std::ranges::find(topologies, requested) == topologies.end()) {
        std::string known;
        for (const std::string& name : topologies) known += (known.empty() ? "" : ", ") + name;
        throw std::invalid_argument("the results have no topology '" + std::string(*topology) +
                                    "'; use one of " +
                                    (known.empty() ? "none: they have only wire rows" : known));
    }
    const std::string used = topology ? requested : headline_topology(topologies);
    const ChosenRows rows = of_topology(table, compared_rows(table), used);
    Breakdown out{summarized(table, rows, part, batch_factor, noise, windows, optimizer), {}};
    const Summary undivided = summarized(table, rows, {}, batch_factor);
    const auto scheme = [&](std::uint32_t row) {
        return std::pair(table.trace.of_row[row], table.scheme.of_row[row]);
    };
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> rank;
    for (const std::size_t i : ranked(table, undivided))
        rank.try_emplace(scheme(undivided.first[i]), rank.size());
    out.order.resize(out.summary.first.size());
    std::iota(out.order.begin(), out.order.end(), std::size_t{0});
    std::ranges::stable_sort(out.order, {},
                             [&](std::size_t i) { return rank[scheme(out.summary.first[i])]; });
    return out;
}

}  // namespace apscope::detail
