// The choice of rows for summaries, pools and comparisons: docs/definitions.md, section 14.
//
// In a policy some tensors may have their own reduction. A topology covers all tensors, so the rows
// of such a tensor are included under each topology that only other tensors of the scheme have. If
// all tensors have their own reductions, but not all the same one, the rows count under the joined
// names (`gather+vote`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/summary/groups.h"
#include "analysis/summary/row_table.h"

namespace apscope::detail {

// Rows of a table, in which a row may occur several times, and the topology for which each counts.
struct ChosenRows {
    std::vector<std::uint32_t> row;
    std::vector<std::int32_t> topology;   // indices into `topologies`
    std::vector<std::string> topologies;  // names in the table, then joined names

    std::size_t size() const { return row.size(); }
    const std::string& topology_of(std::size_t i) const {
        return topologies[static_cast<std::size_t>(topology[i])];
    }
    void add(std::size_t table_row, std::int32_t code) {
        row.push_back(static_cast<std::uint32_t>(table_row));
        topology.push_back(code);
    }
};

// True if a reduction is a scheme's own; a policy may have several, joined by `+`.
bool is_own_reduction(std::string_view topology);
// The topologies of a table in order of appearance, without the wire's empty name.
std::vector<std::string> topologies_in_order(const RowTable& table);
// The first topology that rounds partial sums to a format; if there is none, the first two_phase or
// reduce_scatter, then the first of a scheme's own, then `exact`.
std::string headline_topology(std::span<const std::string> in_order);

ChosenRows all_rows(const RowTable& table);
// Marks the wire rows of a topology: those with its name, and for a tensor without such rows the
// wire rows without a name.
std::vector<std::uint8_t> sent_for(const RowTable& table, std::string_view topology);
std::vector<std::uint32_t> wire_rows(const RowTable& table, std::span<const std::uint32_t> rows,
                                     std::string_view topology);
// The reduced rows among `rows`, such that every topology has all tensors.
ChosenRows whole_sums(const RowTable& table, std::span<const std::uint32_t> rows);
ChosenRows whole_sums(const RowTable& table);
// The rows for comparing schemes: `whole_sums`, and the wire's rows of traces without reduced rows.
ChosenRows compared_rows(const RowTable& table);
// One row per trace, scheme, tensor and step: the row of the scheme's own reduction if there is
// one, otherwise that of `headline_topology`, of another topology, or of `exact`; in traces without
// reduced rows the wire row.
ChosenRows headline_rows(const RowTable& table);
// The rows for pooling by some columns. If by_topology, these are the reduced rows of all
// topologies, each with all tensors; otherwise those of `headline_rows`. If by_topology or
// by_stage, wire rows precede the reduced rows: all wire rows if both are true; otherwise those of
// the headline topology, without its name.
ChosenRows pooled_rows(const RowTable& table, bool by_stage, bool by_topology);
// Keeps one topology per trace and scheme: `topology` if the scheme has it, otherwise its own
// reduction, its first other topology, `exact`, or the wire, in this order. If `topology` is
// `exact`, it applies to all schemes.
ChosenRows of_topology(const RowTable& table, const ChosenRows& rows, std::string_view topology);

// Groups chosen rows by trace, scheme and topology.
Groups by_scheme_and_topology(const RowTable& table, const ChosenRows& rows);
// Divides the groups by a column of the table.
Groups divided(const Groups& groups, const ChosenRows& rows, const Codes& column);

}  // namespace apscope::detail
