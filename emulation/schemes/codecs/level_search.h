// The choice of the points that become levels: the dynamic programme of optimal_levels.h over
// points and costs of level_points.h.
#pragma once

#include <cstddef>

#include "emulation/schemes/codecs/level_points.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// Returns at most k of the points, k >= 2, always with the first and the last point. every: tries
// all i < j for every j, not only those between the best i of two other points.
Row choose_levels(LevelPoints& points, std::size_t k, bool every);

}  // namespace apscope::detail
