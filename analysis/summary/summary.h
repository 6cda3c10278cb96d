// Schemes on recorded gradients, each reduced to one row: docs/definitions.md, sections 14 and 16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/summary/chosen_rows.h"
#include "analysis/summary/figures.h"

namespace apscope::detail {

// The numbers of layers and steps with gradients that are NaN or infinite, and of all.
struct NonfinitePlaces {
    std::size_t odd = 0, all = 0;
};
NonfinitePlaces nonfinite_places(const RowTable& table);

// A row per trace, scheme, topology and `by`, in order of appearance.
struct Summary {
    std::vector<std::uint32_t> first;  // a row of the table with the names of each
    std::vector<std::string> topology, format;
    Figures figures;  // without intervals, modelled times and worst_layer, worst_step
    std::vector<std::optional<std::uint32_t>> worst;  // the row of worst_nmse
    // Squared error over the noise of every step with noise, and the row of the summary it belongs
    // to; for the interval of their mean.
    std::vector<std::uint32_t> ratio_owner;
    std::vector<std::int64_t> ratio_step;
    std::vector<double> ratio;
};

// `by`: columns of the table. `batch_factor`: the noise is that of a batch larger by this factor.
Summary summarized(const RowTable& table, const ChosenRows& rows, std::span<const Codes> by = {},
                   double batch_factor = 1.0);

// The rows of a summary in order of rank: by trace, real topologies before `exact`, then schemes
// without overflow, then by error over noise, then by step_nmse, NaN last.
std::vector<std::size_t> ranked(const RowTable& table, const Summary& summary);

}  // namespace apscope::detail
