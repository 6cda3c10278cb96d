// Summary: one row per scheme and topology of a trace (docs/definitions.md, sections 14 and 16).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/summary/chosen_rows.h"
#include "analysis/summary/figures.h"
#include "analysis/summary/noise.h"
#include "analysis/summary/persistence.h"

namespace apscope::detail {

// The number of (layer, step) pairs with gradients that are NaN or infinite, and that of all pairs.
struct NonfinitePlaces {
    std::size_t odd = 0, all = 0;
};
NonfinitePlaces nonfinite_places(const RowTable& table);

// The parts by which a summary is broken down.
enum class Part { layer, role, step };
std::optional<Part> parse_part(std::string_view name);
const Codes& part_of(const RowTable& table, Part part);

// Which value of a figure the report's page shows: that of the rows that a filter keeps, that of
// the whole trace, or none.
enum class OnPage { part, whole, none };

// One row per trace, scheme, topology and part, in order of appearance.
struct Summary {
    std::vector<std::uint32_t> first;  // for each row, a row of the table with the same names
    std::vector<std::string> topology, format;
    Figures figures;  // those of summary_figures.inc, without its models and places
    // For each row, the table's row that has worst_nmse; none if the figure is unknown.
    std::vector<std::optional<std::uint32_t>> worst;
};

// `batch_factor`: the noise is that of a batch larger by this factor. Without a table of noise, the
// columns about noise have no intervals; without a table of windows there is no persistence.
// `optimizer`: the optimizer of the update loss, by default the trace's.
Summary summarized(const RowTable& table, const ChosenRows& rows, std::optional<Part> part = {},
                   double batch_factor = 1.0, const NoiseTable* noise = nullptr,
                   const WindowTable* windows = nullptr, std::optional<Optimizer> optimizer = {});

// A summary by layer, role or step, of the rows of one reduction for every scheme.
struct Breakdown {
    Summary summary;
    // Indices of the summary's rows: schemes by rank, then parts in order of appearance.
    std::vector<std::size_t> order;
};
// topology: for schemes without their own reduction; by default headline_topology(). Throws
// std::invalid_argument if the table lacks it.
Breakdown broken_down(const RowTable& table, Part part,
                      std::optional<std::string_view> topology = {}, double batch_factor = 1.0,
                      const NoiseTable* noise = nullptr, const WindowTable* windows = nullptr,
                      std::optional<Optimizer> optimizer = {});

// The rows of a summary in order of rank. The order is by trace; in a trace, real topologies come
// before `exact`. Among these, schemes without gaps in their memory come first, then schemes
// without overflow, then schemes that lose no layer. Ties are broken by step_nmse and by error over
// noise, with NaN last.
std::vector<std::size_t> ranked(const RowTable& table, const Summary& summary);

}  // namespace apscope::detail
