// The role of a tensor that its name and shape suggest.
#pragma once

#include <cstddef>
#include <string_view>

namespace apscope::detail {

// One of conv, linear, attention, norm, bias, embedding, head and other: by the name, else by the
// number of dimensions. Three or more mean a convolution, two a linear layer, fewer `other`.
std::string_view guess_role(std::string_view name, std::size_t dimensions);

}  // namespace apscope::detail
