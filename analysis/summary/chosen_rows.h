// Which rows summaries, pools and comparisons use: docs/definitions.md, section 14.
//
// In a policy some tensors may have their own reduction. A topology covers all tensors, so these
// rows are included under each topology that other tensors of the scheme have and these have not;
// if all tensors have their own, but not the same, under all names joined (`gather+vote`).
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

// Rows of a table, a row perhaps several times, and the topology that each counts for.
struct ChosenRows {
    std::vector<std::uint32_t> row;
    std::vector<std::int32_t> topology;   // codes of `topologies`
    std::vector<std::string> topologies;  // those of the table, then joined ones

    std::size_t size() const { return row.size(); }
    const std::string& topology_of(std::size_t i) const {
        return topologies[static_cast<std::size_t>(topology[i])];
    }
    void add(std::size_t table_row, std::int32_t code) {
        row.push_back(static_cast<std::uint32_t>(table_row));
        topology.push_back(code);
    }
};

// Whether a reduction is a scheme's own; a policy may have several, joined by `+`.
bool is_own_reduction(std::string_view topology);
// The topologies of a table in order of appearance, without the wire's empty name.
std::vector<std::string> topologies_in_order(const RowTable& table);
// The first topology that rounds partial sums to a format, else the first of two phases or their
// half, else a scheme's own, else `exact`.
std::string headline_topology(std::span<const std::string> in_order);

ChosenRows all_rows(const RowTable& table);
// Which rows are the wire's for this topology: those that name it, and of a scheme's tensors
// without such ones those that name none.
std::vector<std::uint8_t> sent_for(const RowTable& table, std::string_view topology);
std::vector<std::uint32_t> wire_rows(const RowTable& table, std::span<const std::uint32_t> rows,
                                     std::string_view topology);
// The reduced rows of these, every topology with all tensors.
ChosenRows whole_sums(const RowTable& table, std::span<const std::uint32_t> rows);
ChosenRows whole_sums(const RowTable& table);
// For comparing schemes: `whole_sums`, and the wire's rows of traces without reduced ones.
ChosenRows compared_rows(const RowTable& table);
// One row per trace, scheme, tensor and step: of the scheme's own reduction if it has one, else of
// `headline_topology`, else of another, else `exact`; the wire's of traces without reduced rows.
ChosenRows headline_rows(const RowTable& table);
// For pooling by some columns: with the topology, all topologies, each with all tensors; else
// `headline_rows`; with the topology or the stage, the wire's before them: with both, of every
// topology that has its own; else those of the headline's, without its name.
ChosenRows pooled_rows(const RowTable& table, bool by_stage, bool by_topology);
// Of these, one topology per trace and scheme: `topology`, else a scheme's own, else its first
// other one, else `exact` or the wire; `exact`, if given, for all schemes.
ChosenRows of_topology(const RowTable& table, const ChosenRows& rows, std::string_view topology);

// Groups of chosen rows by trace, scheme and topology.
Groups by_scheme_and_topology(const RowTable& table, const ChosenRows& rows);
// Divided by a column of the table.
Groups divided(const Groups& groups, const ChosenRows& rows, const Codes& column);

}  // namespace apscope::detail
