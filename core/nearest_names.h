// Suggestions for a misspelt name.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace apscope::detail {

// "; did you mean e4m3 or e4m3fn?": the known names with the fewest letters to insert, omit, change
// or swap with their neighbour, at most three; empty if none is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

}  // namespace apscope::detail
