// What the one-bit schemes share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// A key that is any number from 0 to below 1: a momentum's factor. Unlike a scale it need not be an
// fp32 number. Throws std::invalid_argument.
double fraction(const SchemeArguments& arguments, std::string_view key);

// name/worker: where a state keeps one worker's row.
inline std::string row_of(std::string_view name, std::size_t worker) { return std::string(name) + "/" + std::to_string(worker); }

// The least multiple of W lcm(W, 8) that holds n elements: W chunks of whole bytes. (DeepSpeed)
std::size_t padded_length(std::size_t n, std::size_t workers);

}  // namespace apscope::detail
