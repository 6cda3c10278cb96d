// The selection of the part of a trace that is replayed: steps, tensors, a shard. Errors are
// std::invalid_argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/trace/trace_manifest.h"

namespace apscope::detail {

// The indices of recorded steps with numbers from `first` to below `end`; by default from the first
// recorded step, through the last.
std::vector<std::size_t> steps_between(const Manifest& manifest, std::optional<std::int64_t> first,
                                       std::optional<std::int64_t> end);
// The indices of the steps with these numbers.
std::vector<std::size_t> steps_numbered(const Manifest& manifest,
                                        const std::vector<std::int64_t>& numbers);
// The indices of the tensors whose names contain a match of a regular expression in RE2's syntax.
std::vector<std::size_t> tensors_matching(const Manifest& manifest, std::string_view pattern);
// Refuses a shard that is not from 0 to shards - 1.
void check_shard(std::int64_t shard, std::int64_t shards);

}  // namespace apscope::detail
