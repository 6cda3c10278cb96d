// Layers whose gradients are numerically zero: docs/definitions.md, section 14. A parameter that
// changes no output, such as a bias before a batch norm, has a gradient of zero; the computed
// gradient is the rounding error of sums that cancel, in which no scheme can lose anything.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/summary/row_table.h"

namespace apscope::detail {

// One layer over all steps of a trace: sums of the squared reference, of the noise of the batch
// and of the numbers of elements.
struct LayerSums {
    double reference = 0.0, noise = 0.0, elements = 0.0;
};
// Marks the layers of one trace that are numerically zero. Marks none if the noise is unknown.
std::vector<std::uint8_t> numerically_zero(std::span<const LayerSums> layers);

// Marks the rows of a table that belong to a numerically zero layer, judged by the layer's reduced
// rows. If all reduced rows of a step overflow, the layer is not zero.
std::vector<std::uint8_t> rows_of_zero_layers(const RowTable& table);

}  // namespace apscope::detail
