// Layers whose gradients are numerically zero: docs/definitions.md, section 14. A parameter that
// changes no output, such as a bias before a batch norm, has a gradient of zero; the computed
// gradient is the rounding error of sums that cancel, in which no scheme can lose anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/summary/row_table.h"

namespace apscope::detail {

// One layer at one step: sums of the squared reference and of the noise of the batch, the number of
// elements, and the numbers of the layer and of the step, which is one of its trace.
struct LayerAtStep {
    double reference = 0.0, noise = 0.0, elements = 0.0;
    std::size_t layer = 0, step = 0;
};
// Marks the layers that are numerically zero. Marks none if the noise is unknown.
std::vector<std::uint8_t> numerically_zero(std::span<const LayerAtStep> places);

// Marks the rows of a table that belong to a numerically zero layer, judged by the layer's reduced
// rows. If all reduced rows of a step overflow, the layer is not zero.
std::vector<std::uint8_t> rows_of_zero_layers(const RowTable& table);

}  // namespace apscope::detail
