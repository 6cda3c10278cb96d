// What other standards and libraries call the roundings that are named here.
#pragma once

#include <string_view>

namespace apscope::detail {

// The name that a rounding has here, of any word for it: RNE, rtz, roundTiesToAway, NearestTiesToEven, truncate, floor, sr. A word
// that means nothing stays as it is; std::invalid_argument for one that leaves open where ties go (nearest), or is nearly a name.
std::string_view rounding_word(std::string_view word);

}  // namespace apscope::detail
