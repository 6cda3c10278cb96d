// The shards of a reduction in two phases: the part of a tensor that one worker adds up.
#pragma once

#include <algorithm>
#include <cstddef>

namespace apscope::detail {

// `count` elements of a tensor, from element `first` on.
struct Shard {
    std::size_t first, count;
};
// Shard s of a tensor of `elements` elements that `workers` workers reduce.
inline Shard shard_of(std::size_t s, std::size_t elements, std::size_t workers) {
    const std::size_t length = (elements + workers - 1) / workers,
                      first = std::min(s * length, elements);
    return {first, std::min(length, elements - first)};
}

}  // namespace apscope::detail
