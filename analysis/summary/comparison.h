// One scheme against another, layer by layer: docs/definitions.md, section 14.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/summary/figures.h"
#include "analysis/summary/groups.h"
#include "analysis/summary/losses.h"
#include "analysis/summary/row_table.h"

namespace apscope::detail {

// The numbers of one scheme in one layer at one step, which add up over layers and steps.
struct Cell {
    Loss loss;
    // `layers` is 1 if the cell has a cosine. The squared errors are 0 for a skipped row; that of
    // the `exact` row, which is without the error of the additions, is NaN if it is unknown.
    double cosine = 0, layers = 0, sent_error = 0, exact_error = missing;
    double underflow_wire = missing, nonzero_wire = missing;
    double underflow_reduced = missing, nonzero_reduced = missing;
    std::vector<double> parts;  // the columns that are pooled as Pools::part
};

// Two schemes in one trace: their cells, by layer.
struct SchemePair {
    std::string trace, scheme_a, scheme_b, topology_a, topology_b;
    struct Place {
        std::int32_t tensor, step;  // codes in the first table
    };
    std::vector<Place> places;
    std::vector<Cell> a, b;
};

// One row for all layers, then one per layer in order of `tensor`.
struct Compared {
    std::vector<std::optional<std::int32_t>> tensor;  // none: all layers
    Figures figures;
};
Compared compared(const SchemePair& pair, bool layers);

// One row per step, ascending: nmse_a, nmse_b, layers_won, layers_lost, layers_level.
struct ComparedSteps {
    std::vector<std::int64_t> step;
    Figures figures;
};
ComparedSteps compared_steps(const SchemePair& pair, const RowTable& table);

// One row per cell: overflow_a, overflow_b, nmse_a, nmse_b, ratio.
Figures compared_cells(const SchemePair& pair);

// Which of two tables contain a scheme of a trace.
enum class HeldBy { both, first, second };
std::string name_of(HeldBy held_by);

// A scheme of the first table against itself in the second.
struct Against {
    std::string trace, scheme;
    HeldBy held_by;
    std::optional<SchemePair> pair;  // none unless both tables contain the scheme
};

// The reductions that the caller names for the two sides of a comparison. `both` applies to a side
// for which `a` or `b` is absent; a scheme that has only its own reduction keeps that reduction.
struct Reductions {
    using Name = std::optional<std::string_view>;
    Name both, a, b;

    Reductions(Name both = {}, Name a = {}, Name b = {}) : both(both), a(a), b(b) {}
};

// The parts of `SPEC` or `SPEC@REDUCTION`, divided at the first @ outside parentheses.
struct NamedSide {
    std::string_view scheme;
    std::optional<std::string_view> reduction;
};
NamedSide named_side(std::string_view text);

// Pairs schemes of one table, or of two. The tables must outlive the pairing.
class Pairing {
public:
    explicit Pairing(const RowTable& table) : Pairing(table, table) {}
    Pairing(const RowTable& first, const RowTable& second);

    // Pairs scheme `a` of the first table with `b` of the second, in every trace with both. Traces
    // of two tables are matched by name, or if each table has only one trace; layers and steps that
    // occur in only one table are omitted. By default the reduction is the first topology that both
    // have and that is not `exact`. If only one side names a reduction, the other side takes the
    // same one, or its first topology if it does not have that reduction. `wire`, for both sides,
    // compares the messages before any sum. Throws std::invalid_argument if no trace has both
    // schemes, and for an unknown topology.
    std::vector<SchemePair> pairs(std::string_view a, std::string_view b,
                                  const Reductions& reductions = {}) const;

    // Pairs every scheme of every trace of both tables, in the order of the first table, then the
    // schemes that occur only in the second; a trace that both tables have gets its name in the
    // first. Throws std::invalid_argument if no trace of the two tables matches, or if a matching
    // trace has no layer and step in common.
    std::vector<Against> against(std::optional<std::string_view> topology = {}) const;

private:
    using Rows = std::vector<std::uint32_t>;
    struct Side {
        const RowTable* table;
        std::vector<std::int32_t> traces, schemes;  // codes, in order of appearance
        std::map<std::pair<std::int32_t, std::int32_t>, Rows> rows;  // by trace and scheme

        explicit Side(const RowTable& of);
        const Rows* find(std::int32_t trace, std::string_view scheme) const;
        // The keys of `rows`, in order of appearance.
        std::vector<std::pair<std::int32_t, std::int32_t>> in_order() const;
        std::string names_of_traces() const;
    };
    // Empty if the rows have no layer and step in common.
    std::optional<SchemePair> paired(std::int32_t trace, const Rows& rows_a, const Rows& rows_b,
                                     std::string_view a, std::string_view b,
                                     const Reductions& reductions) const;
    std::vector<std::pair<std::int32_t, std::int32_t>> matched() const;

    Side first_, second_;
    // For each code of the second table, the first table's code; -1: none.
    std::vector<std::int32_t> tensor_, step_;
};

}  // namespace apscope::detail
