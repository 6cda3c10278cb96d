// Pairing finds the rows of the two schemes of a comparison. From these rows, it makes one Cell
// (comparison.h) per scheme, layer and step.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <unordered_map>

#include "analysis/summary/chosen_rows.h"
#include "analysis/summary/comparison.h"
#include "emulation/allreduce/topology.h"

namespace apscope::detail {

namespace {

using C = NumberColumn;
using Rows = std::vector<std::uint32_t>;

bool holds(const std::vector<std::string>& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
}

// The topologies of chosen rows, in order of appearance.
std::vector<std::string> names_of(const ChosenRows& rows) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!holds(names, rows.topology_of(i))) names.push_back(rows.topology_of(i));
    }
    return names;
}

// The rows of one scheme in one trace.
struct SchemeRows {
    std::string spec;
    const RowTable* table;
    ChosenRows reduced;
    // `topologies` has all topologies of the reduced rows; `crossing` has those other than `exact`
    // and the scheme's own reduction.
    std::vector<std::string> topologies, crossing;
    Rows all;

    SchemeRows(const RowTable& table, const Rows& rows, std::string_view spec)
        : spec(spec), table(&table), reduced(whole_sums(table, rows)),
          topologies(names_of(reduced)), all(rows) {
        for (const std::string& name : topologies) {
            if (name != "exact" && !is_own_reduction(name)) crossing.push_back(name);
        }
    }
    // The wire rows of a topology; for "wire", those of the first topology.
    Rows wire_of(std::string_view topology) const {
        if (topology == "wire") topology = crossing.empty() ? "" : crossing.front();
        return wire_rows(*table, all, topology);
    }
    Rows rows_of(std::string_view topology) const {
        if (topology == "wire") return wire_of(topology);
        Rows rows;
        for (std::size_t i = 0; i < reduced.size(); ++i) {
            if (reduced.topology_of(i) == topology) rows.push_back(reduced.row[i]);
        }
        return rows;
    }
    // The topology `requested`, or the scheme's own reduction if the scheme does not have that
    // topology, as in a summary.
    std::string compared_topology(std::string_view requested) const {
        const auto own_reduction = std::ranges::find_if(topologies, is_own_reduction);
        const std::string name = canonical_topology(requested);
        const bool lacks =
            crossing.empty() || (!collective_name(name).empty() && !holds(topologies, name));
        if (own_reduction != topologies.end() && requested != "exact" && lacks)
            return *own_reduction;
        return existing(requested);
    }
    // The first topology other than the scheme's own reduction and `exact`; if there is none, the
    // own reduction, and without one `exact`.
    std::string first_topology() const {
        if (!crossing.empty()) return crossing.front();
        const auto own_reduction = std::ranges::find_if(topologies, is_own_reduction);
        return own_reduction != topologies.end() ? *own_reduction : existing("exact");
    }
    // The name of the scheme's topology `requested`, which may have any spelling; throws if the
    // scheme does not have it.
    std::string existing(std::string_view requested) const {
        const std::string topology(requested);
        if (holds(topologies, topology)) return topology;
        if (requested.empty())
            throw std::invalid_argument("'" + spec + "@' has no topology after the @, as in " +
                                        spec + "@ring");
        if (const std::string name = canonical_topology(requested); holds(topologies, name))
            return name;
        std::string known;
        for (const std::string& name : topologies) known += name + ", ";
        throw std::invalid_argument("'" + spec + "' has no topology '" + topology +
                                    "' in the results; use one of " + known + "wire");
    }
};

// The topologies of both sides, if at least one side names its topology.
std::pair<std::string, std::string> sides_topologies(const SchemeRows& a, const SchemeRows& b,
                                                     const Reductions& requested) {
    if (a.topologies.empty() || b.topologies.empty()) return {"wire", "wire"};
    const auto of_a = requested.a ? requested.a : requested.both,
               of_b = requested.b ? requested.b : requested.both;
    if (of_a == "wire" || of_b == "wire") {
        if (of_a == of_b) return {"wire", "wire"};
        throw std::invalid_argument("'" + (of_a == "wire" ? a : b).spec +
                                    "@wire' is what is sent, before any sum; give @wire to both "
                                    "schemes or to none");
    }
    const auto beside = [](const SchemeRows& side, std::string_view other) {
        return holds(side.topologies, other) ? std::string(other) : side.first_topology();
    };
    return {of_a ? requested.a ? a.existing(*of_a) : a.compared_topology(*of_a) : beside(a, *of_b),
            of_b ? requested.b ? b.existing(*of_b) : b.compared_topology(*of_b) : beside(b, *of_a)};
}

std::pair<std::string, std::string> compared_topologies(const SchemeRows& a, const SchemeRows& b,
                                                        const Reductions& reductions) {
    if (reductions.a || reductions.b) return sides_topologies(a, b, reductions);
    const auto& requested = reductions.both;
    if (requested == "wire" || a.topologies.empty() || b.topologies.empty())
        return {"wire", "wire"};
    std::string topology(requested.value_or(""));
    if (!requested) {
        const auto& choices = a.crossing.empty() ? b.crossing : a.crossing;
        const auto both = std::ranges::find_if(choices, [&](const std::string& name) {
            return b.crossing.empty() || holds(b.crossing, name);
        });
        if (both != choices.end()) topology = *both;
        else if (!choices.empty())
            throw std::invalid_argument(
                "'" + a.spec + "' and '" + b.spec +
                "' have no topology in common; give each its own, such as '" + a.spec + "@" +
                a.crossing.front() + "' and '" + b.spec + "@" + b.crossing.front() +
                "', or both wire");
    }
    return {a.compared_topology(topology), b.compared_topology(topology)};
}

// The rows of a scheme by layer and step.
class Places {
public:
    Places(const RowTable& table, const Rows& rows) : table_(table) {
        for (const std::uint32_t row : rows) rows_.try_emplace(key(row), row);
    }
    // The row with the same layer and step as another table's row; null if there is none.
    const std::uint32_t* like(std::uint32_t row) const {
        const auto match = rows_.find(key(row));
        return match == rows_.end() ? nullptr : &match->second;
    }

private:
    std::size_t key(std::uint32_t row) const {
        return static_cast<std::size_t>(table_.tensor.of_row[row]) * table_.step.levels +
               static_cast<std::size_t>(table_.step.of_row[row]);
    }
    const RowTable& table_;
    std::unordered_map<std::size_t, std::uint32_t> rows_;
};

std::vector<Cells> parts_of(const RowTable& table) {
    std::vector<Cells> parts;
    for (std::size_t c = 0; c < number_columns.size(); ++c) {
        if (number_columns[c].pools == Pools::part) parts.push_back(table[static_cast<C>(c)]);
    }
    return parts;
}

std::vector<Cell> cells_of(const RowTable& table, const SchemeRows& scheme, const Rows& rows,
                           std::string_view topology) {
    const RowLosses losses(table);
    const auto cosine = table[C::cosine], underflow = table[C::underflow],
               nonzero = table[C::nonzero], error = table[C::sum_squared_error];
    const std::vector<Cells> parts = parts_of(table);
    const bool reduced = topology != "wire";
    const Rows sent = scheme.wire_of(topology);
    // The error of the additions is known if the `exact` row is the sum of the same messages.
    const bool same_messages =
        topology == "exact" || std::ranges::none_of(sent, [&](std::uint32_t row) {
            return table.topology[row] == topology;
        });
    const Places wire(table, sent),
        exact(table, reduced && same_messages ? scheme.rows_of("exact") : Rows());
    const auto sent_only = [&](std::uint32_t row, const Cells& values) {
        return table.skipped[row] ? 0.0 : values[row];
    };
    std::vector<Cell> cells;
    for (const std::uint32_t row : rows) {
        Cell cell;
        cell.loss = losses[row];
        if (cell.loss.exists()) {
            cell.cosine = losses.cosine(row, cell.loss, cosine);
            cell.layers = 1;
        }
        cell.sent_error = cell.loss.error * (table.skipped[row] ? 0.0 : 1.0);
        for (const auto& part : parts) cell.parts.push_back(sent_only(row, part));
        if (const std::uint32_t* at = wire.like(row)) {
            cell.underflow_wire = sent_only(*at, underflow);
            cell.nonzero_wire = sent_only(*at, nonzero);
        }
        if (reduced) {
            cell.underflow_reduced = sent_only(row, underflow);
            cell.nonzero_reduced = sent_only(row, nonzero);
            const std::uint32_t* at = exact.like(row);
            cell.exact_error = table.skipped[row] ? 0.0 : at ? error[*at] : missing;
        }
        cells.push_back(std::move(cell));
    }
    return cells;
}

}  // namespace

NamedSide named_side(std::string_view text) {
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '(') ++depth;
        else if (text[i] == ')') --depth;
        else if (text[i] == '@' && depth == 0) return {text.substr(0, i), text.substr(i + 1)};
    }
    return {text, {}};
}

Pairing::Side::Side(const RowTable& of) : table(&of) {
    for (std::size_t i = 0; i < of.rows; ++i) {
        const std::int32_t trace = of.trace.of_row[i], scheme = of.scheme.of_row[i];
        if (std::ranges::find(traces, trace) == traces.end()) traces.push_back(trace);
        rows[{trace, scheme}].push_back(static_cast<std::uint32_t>(i));
    }
}

const Pairing::Rows* Pairing::Side::find(std::int32_t trace, std::string_view scheme) const {
    const auto code = std::ranges::find(table->scheme.names, scheme) - table->scheme.names.begin();
    const auto match = rows.find({trace, static_cast<std::int32_t>(code)});
    return match == rows.end() ? nullptr : &match->second;
}

std::vector<std::pair<std::int32_t, std::int32_t>> Pairing::Side::in_order() const {
    std::vector<std::pair<std::int32_t, std::int32_t>> keys;
    for (const auto& [key, unused] : rows) keys.push_back(key);
    std::ranges::sort(keys, {}, [&](const auto& key) { return rows.at(key).front(); });
    return keys;
}

std::string Pairing::Side::names_of_traces() const {
    std::string names;
    for (const std::int32_t code : traces)
        names += (names.empty() ? "" : ", ") + table->trace.names[static_cast<std::size_t>(code)];
    return names.empty() ? "none" : names;
}

Pairing::Pairing(const RowTable& first, const RowTable& second) : first_(first), second_(second) {
    const auto place = [](const auto& list, const auto& value) {
        const auto match = std::ranges::find(list, value);
        return match == list.end() ? -1 : static_cast<std::int32_t>(match - list.begin());
    };
    for (const std::string& name : second.tensor.names)
        tensor_.push_back(place(first.tensor.names, name));
    for (const std::int64_t step : second.steps) step_.push_back(place(first.steps, step));
}

std::vector<std::pair<std::int32_t, std::int32_t>> Pairing::matched() const {
    if (first_.traces.size() == 1 && second_.traces.size() == 1)
        return {{first_.traces[0], second_.traces[0]}};
    std::vector<std::pair<std::int32_t, std::int32_t>> both;
    for (const std::int32_t here : first_.traces) {
        for (const std::int32_t there : second_.traces) {
            if (first_.table->trace.names[static_cast<std::size_t>(here)] ==
                second_.table->trace.names[static_cast<std::size_t>(there)])
                both.emplace_back(here, there);
        }
    }
    return both;
}

std::optional<SchemePair> Pairing::paired(std::int32_t trace, const Rows& rows_a,
                                          const Rows& rows_b, std::string_view a,
                                          std::string_view b, const Reductions& reductions) const {
    const RowTable &one = *first_.table, &other = *second_.table;
    const SchemeRows scheme_a(one, rows_a, a), scheme_b(other, rows_b, b);
    SchemePair pair{one.trace.names[static_cast<std::size_t>(trace)],
                    std::string(a),
                    std::string(b),
                    "",
                    "",
                    {},
                    {},
                    {}};
    std::tie(pair.topology_a, pair.topology_b) =
        compared_topologies(scheme_a, scheme_b, reductions);
    const Rows chosen_a = scheme_a.rows_of(pair.topology_a),
               chosen_b = scheme_b.rows_of(pair.topology_b);
    const std::vector<Cell> cells_a = cells_of(one, scheme_a, chosen_a, pair.topology_a),
                            cells_b = cells_of(other, scheme_b, chosen_b, pair.topology_b);
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> of_b;
    for (std::size_t i = 0; i < chosen_b.size(); ++i) {
        of_b.try_emplace({tensor_[static_cast<std::size_t>(other.tensor.of_row[chosen_b[i]])],
                          step_[static_cast<std::size_t>(other.step.of_row[chosen_b[i]])]},
                         i);
    }
    struct Met {
        std::int32_t tensor, step;
        std::size_t a, b;
    };
    std::vector<Met> met;
    for (std::size_t i = 0; i < chosen_a.size(); ++i) {
        const std::int32_t tensor = one.tensor.of_row[chosen_a[i]],
                           step = one.step.of_row[chosen_a[i]];
        if (const auto at = of_b.find({tensor, step}); at != of_b.end())
            met.push_back({tensor, step, i, at->second});
    }
    if (&one != &other && met.empty()) return std::nullopt;
    std::vector<std::size_t> place(one.tensor.levels, one.tensor.levels);
    std::size_t next = 0;
    for (const std::uint32_t row : rows_a) {
        std::size_t& place_of_tensor = place[static_cast<std::size_t>(one.tensor.of_row[row])];
        if (place_of_tensor == one.tensor.levels) place_of_tensor = next++;
    }
    std::ranges::stable_sort(
        met, {}, [&](const Met& m) { return place[static_cast<std::size_t>(m.tensor)]; });
    for (const Met& m : met) {
        if (std::isnan(cells_a[m.a].loss.error) || std::isnan(cells_b[m.b].loss.error)) continue;
        pair.places.push_back({m.tensor, m.step});
        pair.a.push_back(cells_a[m.a]);
        pair.b.push_back(cells_b[m.b]);
    }
    return pair;
}

namespace {

std::string no_common_place(std::string_view a, std::string_view b) {
    return "no trace of the first results with '" + std::string(a) +
           "' has a layer and step in common with one of the second with '" + std::string(b) + "'";
}

}  // namespace

std::string name_of(HeldBy held_by) {
    return held_by == HeldBy::both ? "both" : held_by == HeldBy::first ? "first" : "second";
}

std::vector<SchemePair> Pairing::pairs(std::string_view a, std::string_view b,
                                       const Reductions& reductions) const {
    std::vector<SchemePair> pairs;
    for (const auto& [here, there] : matched()) {
        const Rows *rows_a = first_.find(here, a), *rows_b = second_.find(there, b);
        if (rows_a == nullptr || rows_b == nullptr) continue;
        if (auto pair = paired(here, *rows_a, *rows_b, a, b, reductions))
            pairs.push_back(std::move(*pair));
    }
    const auto& requested = reductions.a ? reductions.a : reductions.b;
    if (requested && requested != "wire" &&
        std::ranges::all_of(pairs,
                            [](const SchemePair& pair) { return pair.topology_a == "wire"; }) &&
        !pairs.empty())
        throw std::invalid_argument(
            "nothing was reduced in the results, so they have no topology '" +
            std::string(*requested) + "'; leave it out, or use wire");
    if (!pairs.empty()) return pairs;
    throw std::invalid_argument(first_.table != second_.table
                                    ? no_common_place(a, b)
                                    : "no trace of the results has both '" + std::string(a) +
                                          "' and '" + std::string(b) + "'");
}

std::vector<Against> Pairing::against(std::optional<std::string_view> topology) const {
    const auto met = matched();
    if (met.empty())
        throw std::invalid_argument("the results are of different traces (" +
                                    first_.names_of_traces() + "; " + second_.names_of_traces() +
                                    "); there is nothing to compare");
    std::vector<Against> result;
    for (const auto& [trace, scheme] : first_.in_order()) {
        const std::string& spec = first_.table->scheme.names[static_cast<std::size_t>(scheme)];
        const auto both =
            std::ranges::find(met, trace, [](const auto& pair) { return pair.first; });
        const Rows* other = both == met.end() ? nullptr : second_.find(both->second, spec);
        Against one{first_.table->trace.names[static_cast<std::size_t>(trace)],
                    spec,
                    other ? HeldBy::both : HeldBy::first,
                    {}};
        if (other) {
            one.pair = paired(trace, first_.rows.at({trace, scheme}), *other, spec, spec, topology);
            if (!one.pair) throw std::invalid_argument(no_common_place(spec, spec));
        }
        result.push_back(std::move(one));
    }
    for (const auto& [trace, scheme] : second_.in_order()) {
        const std::string& spec = second_.table->scheme.names[static_cast<std::size_t>(scheme)];
        const auto both =
            std::ranges::find(met, trace, [](const auto& pair) { return pair.second; });
        if (both != met.end() && first_.find(both->first, spec)) continue;
        const RowTable& names = both == met.end() ? *second_.table : *first_.table;
        const std::int32_t name = both == met.end() ? trace : both->first;
        result.push_back(
            {names.trace.names[static_cast<std::size_t>(name)], spec, HeldBy::second, {}});
    }
    return result;
}

}  // namespace apscope::detail
