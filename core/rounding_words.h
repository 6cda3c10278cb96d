// Names of rounding modes in other standards and libraries.
#pragma once

#include <string_view>

namespace apscope::detail {

// The name that apscope gives to a rounding mode, from any synonym: RNE, rtz, roundTiesToAway,
// NearestTiesToEven, truncate, floor, sr. An unknown word is returned unchanged. Throws
// std::invalid_argument for a word that does not define the rounding of ties (nearest), and for a
// misspelt name.
std::string_view rounding_word(std::string_view word);

}  // namespace apscope::detail
