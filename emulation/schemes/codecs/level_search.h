// The choice of the points that become levels: the dynamic programme of optimal_levels.h over
// points and costs of level_points.h.
#pragma once

#include <cstddef>

#include "emulation/schemes/codecs/level_points.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// Chooses at most k of the points, both ends among them, k >= 2. every: tries all i for every j.
Row choose_levels(LevelPoints& points, std::size_t k, bool every);

}  // namespace apscope::detail
