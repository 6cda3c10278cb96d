// Which part of a trace is replayed: steps, tensors, a shard. Errors are std::invalid_argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/trace/trace_manifest.h"

namespace apscope::detail {

// Places of recorded steps from `first` to below `end`; by default from the first, to the last.
std::vector<std::size_t> steps_between(const Manifest& manifest, std::optional<std::int64_t> first,
                                       std::optional<std::int64_t> end);
// Places of the steps with these numbers.
std::vector<std::size_t> steps_numbered(const Manifest& manifest,
                                        const std::vector<std::int64_t>& numbers);
// Places of the tensors whose names a regular expression of RE2's is found in.
std::vector<std::size_t> tensors_matching(const Manifest& manifest, std::string_view pattern);
// Shards count from 0 to below their number.
void check_shard(std::int64_t shard, std::int64_t shards);

}  // namespace apscope::detail
