// The shapes of a trace's tensors.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace apscope {

using Shape = std::vector<std::int64_t>;
using Shapes = std::vector<std::pair<std::string, Shape>>;  // of tensors, by their names

// Throws apscope::error, which begins with `where`, for a missing, new or reshaped tensor.
void compare(const Shapes& found, const Shapes& expected, const std::string& where);

}  // namespace apscope
