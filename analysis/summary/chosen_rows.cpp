#include "analysis/summary/chosen_rows.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "emulation/allreduce/topology.h"
#include "emulation/schemes/transport.h"

namespace apscope::detail {

namespace {

constexpr std::string_view exact = "exact";

bool is_own_name(std::string_view name) {
    return std::ranges::find(reductions::own, name) != reductions::own.end();
}

// The traces with reduced rows.
std::vector<std::uint8_t> with_reduced(const RowTable& table) {
    std::vector<std::uint8_t> result(table.trace.levels, 0);
    for (std::size_t i = 0; i < table.rows; ++i) {
        if (!table.wire[i]) result[static_cast<std::size_t>(table.trace.of_row[i])] = 1;
    }
    return result;
}

// Assigns the rows of a scheme's own reductions to topologies, namely those that other tensors of
// the scheme have and the row's tensor does not have. If every tensor has its own reduction, the
// rows count under the joined names of these reductions.
class Covering {
public:
    Covering(const RowTable& table, std::span<const std::uint32_t> rows, ChosenRows& out)
        : table_(table), out_(out), pairs_(rows.size()), tensors_(rows.size()) {
        const std::vector<std::string>& names = table.topology.names;
        out.topologies = names;
        for (const std::string& name : names) own_.push_back(is_own_name(name));
        if (std::ranges::none_of(own_, [](bool is_own) { return is_own; })) return;
        pairs_ = pairs_
                     .divided(table.trace.levels,
                              [&](std::size_t i) { return table.trace.of_row[rows[i]]; })
                     .divided(table.scheme.levels,
                              [&](std::size_t i) { return table.scheme.of_row[rows[i]]; });
        tensors_ = pairs_.divided(table.tensor.levels,
                                  [&](std::size_t i) { return table.tensor.of_row[rows[i]]; });
        const std::vector<std::uint32_t> pair_of = tensors_.owners(pairs_);
        std::vector<std::vector<std::int32_t>> alone(pairs_.size()), crossing(pairs_.size()),
            own_of_tensor(tensors_.size());
        // Until the last loop, covering_[t] has the topologies, other than `exact` and the scheme's
        // own reductions, for which tensor t has rows.
        covering_.resize(tensors_.size());
        const auto note = [](std::vector<std::int32_t>& known, std::int32_t code) {
            if (std::ranges::find(known, code) == known.end()) known.push_back(code);
        };
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const std::int32_t code = table.topology.of_row[rows[i]];
            const auto place = static_cast<std::size_t>(code);
            if (table.wire[rows[i]] || names[place] == exact) continue;
            note(own_[place] ? alone[pairs_.of_row[i]] : crossing[pairs_.of_row[i]], code);
            note(own_[place] ? own_of_tensor[tensors_.of_row[i]] : covering_[tensors_.of_row[i]],
                 code);
        }
        std::vector<bool> all_own(pairs_.size(), true);  // every tensor has its own reduction
        for (std::size_t t = 0; t < own_of_tensor.size(); ++t)
            if (own_of_tensor[t].empty()) all_own[pair_of[t]] = false;
        std::vector<std::int32_t> name(pairs_.size(), -1);
        for (std::size_t pair = 0; pair < pairs_.size(); ++pair)
            if (all_own[pair] && !alone[pair].empty()) name[pair] = joined(alone[pair]);
        for (std::size_t t = 0; t < own_of_tensor.size(); ++t) {
            std::vector<std::int32_t> covered;
            if (name[pair_of[t]] >= 0) covered.push_back(name[pair_of[t]]);
            std::ranges::copy_if(
                crossing[pair_of[t]], std::back_inserter(covered), [&](std::int32_t code) {
                    return std::ranges::find(covering_[t], code) == covering_[t].end();
                });
            covering_[t] = std::move(covered);
        }
    }

    void add(std::size_t i, std::uint32_t row) {
        const std::int32_t code = table_.topology.of_row[row];
        if (covering_.empty() || !own_[static_cast<std::size_t>(code)]) {
            out_.add(row, code);
            return;
        }
        for (const std::int32_t topology : covering_[tensors_.of_row[i]]) out_.add(row, topology);
    }

private:
    std::int32_t joined(const std::vector<std::int32_t>& codes) {
        std::string name;
        for (const std::int32_t code : codes)
            name += (name.empty() ? "" : "+") + out_.topologies[static_cast<std::size_t>(code)];
        const auto match = std::ranges::find(out_.topologies, name);
        const auto place = static_cast<std::int32_t>(match - out_.topologies.begin());
        if (match == out_.topologies.end()) out_.topologies.push_back(name);
        return place;
    }

    const RowTable& table_;
    ChosenRows& out_;
    Groups pairs_, tensors_;  // by trace and scheme; by tensor in each such pair
    std::vector<bool> own_;
    // Per tensor, the topologies to which its own rows are assigned.
    std::vector<std::vector<std::int32_t>> covering_;
};

std::vector<std::uint32_t> every_row(const RowTable& table) {
    std::vector<std::uint32_t> rows(table.rows);
    std::iota(rows.begin(), rows.end(), 0u);
    return rows;
}

// Chooses the reduced rows among `rows` and, if `has_reduced` is not null, the wire rows of traces
// that `has_reduced` does not mark.
ChosenRows covered(const RowTable& table, std::span<const std::uint32_t> rows,
                   const std::vector<std::uint8_t>* has_reduced) {
    ChosenRows out;
    out.row.reserve(rows.size());
    out.topology.reserve(rows.size());
    Covering covering(table, rows, out);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::uint32_t row = rows[i];
        if (!table.wire[row]) covering.add(i, row);
        else if (has_reduced && !(*has_reduced)[static_cast<std::size_t>(table.trace.of_row[row])])
            out.add(row, table.topology.of_row[row]);
    }
    return out;
}

}  // namespace

bool is_own_reduction(std::string_view topology) {
    while (true) {
        const std::size_t plus = topology.find('+');
        if (!is_own_name(topology.substr(0, plus))) return false;
        if (plus == std::string_view::npos) return true;
        topology.remove_prefix(plus + 1);
    }
}

std::string headline_topology(std::span<const std::string> in_order) {
    const std::string *phased = nullptr, *own = nullptr;
    for (const std::string& name : in_order) {
        if (name == exact) continue;
        const bool is_own = is_own_reduction(name);
        // Two-phase reductions, whose rows may come first, do not round partial sums to the
        // scheme's format.
        if (!is_own && !is_two_phase(name)) return name;
        const std::string*& other = is_own ? own : phased;
        if (other == nullptr) other = &name;
    }
    return phased ? *phased : own ? *own : std::string(exact);
}

std::vector<std::string> topologies_in_order(const RowTable& table) {
    std::vector<std::string> order;
    std::vector<std::uint8_t> seen(table.topology.levels, 0);
    for (const std::int32_t code : table.topology.of_row) {
        const auto place = static_cast<std::size_t>(code);
        if (seen[place]) continue;
        seen[place] = 1;
        if (!table.topology.names[place].empty()) order.push_back(table.topology.names[place]);
    }
    return order;
}

ChosenRows all_rows(const RowTable& table) {
    return {every_row(table),
            {table.topology.of_row.begin(), table.topology.of_row.end()},
            table.topology.names};
}

std::vector<std::uint8_t> sent_for(const RowTable& table, std::string_view topology) {
    std::vector<std::uint8_t> sent(table.rows, 0);
    Groups tensors(table.rows);
    for (const Codes* column :
         {static_cast<const Codes*>(&table.trace), static_cast<const Codes*>(&table.scheme),
          static_cast<const Codes*>(&table.tensor)})
        tensors = tensors.divided(column->levels, [&](std::size_t i) { return column->of_row[i]; });
    std::vector<std::uint8_t> named(tensors.size(), 0);
    for (std::size_t i = 0; i < table.rows && !topology.empty(); ++i) {
        if (!table.wire[i] || table.topology[i] != topology) continue;
        sent[i] = named[tensors.of_row[i]] = 1;
    }
    for (std::size_t i = 0; i < table.rows; ++i)
        if (table.wire[i] && table.topology[i].empty() && !named[tensors.of_row[i]]) sent[i] = 1;
    return sent;
}

std::vector<std::uint32_t> wire_rows(const RowTable& table, std::span<const std::uint32_t> rows,
                                     std::string_view topology) {
    const std::vector<std::uint8_t> sent = sent_for(table, topology);
    std::vector<std::uint32_t> result;
    std::ranges::copy_if(rows, std::back_inserter(result),
                         [&](std::uint32_t row) { return sent[row] != 0; });
    return result;
}

ChosenRows whole_sums(const RowTable& table, std::span<const std::uint32_t> rows) {
    return covered(table, rows, nullptr);
}

ChosenRows whole_sums(const RowTable& table) { return whole_sums(table, every_row(table)); }

ChosenRows compared_rows(const RowTable& table) {
    const std::vector<std::uint8_t> having = with_reduced(table);
    return covered(table, every_row(table), &having);
}

ChosenRows headline_rows(const RowTable& table) {
    std::vector<std::string> order(reductions::own.begin(), reductions::own.end());
    const std::vector<std::string> names = topologies_in_order(table);
    order.push_back(headline_topology(names));
    std::ranges::copy_if(names, std::back_inserter(order),
                         [](const std::string& name) { return name != exact; });
    order.insert(order.end(), {std::string(exact), ""});
    std::vector<std::size_t> rank;  // rank of every topology
    for (const std::string& name : table.topology.names)
        rank.push_back(static_cast<std::size_t>(std::ranges::find(order, name) - order.begin()));
    const auto rank_of = [&](std::uint32_t row) {
        return rank[static_cast<std::size_t>(table.topology.of_row[row])];
    };

    const std::vector<std::uint8_t> having = with_reduced(table);
    ChosenRows candidates;
    for (std::size_t i = 0; i < table.rows; ++i) {
        if (!table.wire[i] || !having[static_cast<std::size_t>(table.trace.of_row[i])])
            candidates.add(i, table.topology.of_row[i]);
    }
    Groups places(candidates.size());
    for (const Codes* column :
         {static_cast<const Codes*>(&table.trace), static_cast<const Codes*>(&table.scheme),
          static_cast<const Codes*>(&table.tensor), &table.step})
        places = divided(places, candidates, *column);
    std::vector<std::uint32_t> best(places.size());
    for (std::size_t g = 0; g < best.size(); ++g) best[g] = candidates.row[places.first[g]];
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        std::uint32_t& best_row = best[places.of_row[i]];
        if (rank_of(candidates.row[i]) < rank_of(best_row)) best_row = candidates.row[i];
    }
    std::ranges::sort(best);
    ChosenRows out;
    out.topologies = table.topology.names;
    for (const std::uint32_t row : best) out.add(row, table.topology.of_row[row]);
    return out;
}

ChosenRows pooled_rows(const RowTable& table, bool by_stage, bool by_topology) {
    ChosenRows rows = by_topology ? compared_rows(table) : headline_rows(table);
    if (!by_stage && !by_topology) return rows;
    ChosenRows out;
    out.topologies = std::move(rows.topologies);
    const std::string headline = headline_topology(topologies_in_order(table));
    const std::vector<std::uint8_t> sent = sent_for(table, headline);
    const auto none = std::ranges::find(out.topologies, "") - out.topologies.begin();
    if (static_cast<std::size_t>(none) == out.topologies.size()) out.topologies.emplace_back();
    for (std::size_t i = 0; i < table.rows; ++i) {
        if (!table.wire[i]) continue;
        if (by_stage && by_topology) out.add(i, table.topology.of_row[i]);
        else if (sent[i]) out.add(i, static_cast<std::int32_t>(none));
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!table.wire[rows.row[i]]) out.add(rows.row[i], rows.topology[i]);
    }
    return out;
}

ChosenRows of_topology(const RowTable& table, const ChosenRows& rows, std::string_view topology) {
    const auto preference = [&](const std::string& name) {
        if (topology == exact) return name == exact ? 0 : 4;
        if (name == topology) return 0;
        if (!name.empty() && is_own_reduction(name)) return 1;
        return name == exact || name.empty() ? 3 : 2;
    };
    std::vector<int> of_name;
    for (const std::string& name : rows.topologies) of_name.push_back(preference(name));
    Groups schemes(rows.size());
    schemes = divided(divided(schemes, rows, table.trace), rows, table.scheme);
    std::vector<std::int32_t> best(schemes.size(), -1);
    const auto rank = [&](std::int32_t code) { return of_name[static_cast<std::size_t>(code)]; };
    for (std::size_t i = 0; i < rows.size(); ++i) {
        std::int32_t& best_topology = best[schemes.of_row[i]];
        if (rank(rows.topology[i]) < 4 &&
            (best_topology < 0 || rank(rows.topology[i]) < rank(best_topology)))
            best_topology = rows.topology[i];
    }
    ChosenRows out;
    out.topologies = rows.topologies;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows.topology[i] == best[schemes.of_row[i]]) out.add(rows.row[i], rows.topology[i]);
    }
    return out;
}

Groups by_scheme_and_topology(const RowTable& table, const ChosenRows& rows) {
    const Groups schemes =
        divided(divided(Groups(rows.size()), rows, table.trace), rows, table.scheme);
    return schemes.divided(rows.topologies.size(), [&](std::size_t i) { return rows.topology[i]; });
}

Groups divided(const Groups& groups, const ChosenRows& rows, const Codes& column) {
    return groups.divided(column.levels, [&](std::size_t i) { return column.of_row[rows.row[i]]; });
}

}  // namespace apscope::detail
