// The statistics of one tensor at one step that the workers agree on, from their rows.
#pragma once

#include <span>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// Adds a row's fixed-shape sums over its finite elements.
void add_sums(AgreedStatistics& agreed, std::span<const float> row);

AgreedStatistics agreed_statistics(std::span<const std::span<const float>> rows, bool with_sums);

}  // namespace apscope::detail
