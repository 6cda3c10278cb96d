// Suggestions for a misspelt name.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace apscope::detail {

// Returns a suggestion such as "; did you mean e4m3 or e4m3fn?", with the known names that need the
// fewest insertions, deletions, replacements and swaps of neighbouring letters, at most three;
// empty if no name is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

}  // namespace apscope::detail
