// Steps in which the threads of a group of Step::width lanes share a result: a power of two, at
// most 32, of neighbouring threads. Such a step has, in place of operator(),
//
//      Lane begin(i)          what thread i computes and keeps in registers
//      share(lane)            the part of it that the group combines: a struct of 4-byte words
//      combine(a, b)          of two shares; commutative, bit for bit
//      finish(i, lane, all)   the rest, with the share of the whole group
//
// and count() is a multiple of width. The shares are combined in the order of a butterfly,
//
//      width = 4       lane 0   1   2   3
//      distance 2           0+2 1+3 2+0 3+1
//      distance 1           all all all all
//
// so that every lane has the same bits. On a GPU a butterfly is a shuffle per word and distance.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace apscope::detail {

template <class Step>
concept LaneGroupStep = requires { Step::width; };

// Runs group g of a step on the host.
template <LaneGroupStep Step>
void run_group(const Step& step, std::uint64_t g) {
    constexpr int width = Step::width;
    const std::uint64_t first = g * width;
    typename Step::Lane lane[width];
    decltype(step.share(lane[0])) all[width], before[width];
    for (int j = 0; j < width; ++j) {
        lane[j] = step.begin(first + j);
        all[j] = step.share(lane[j]);
    }
    for (int distance = width / 2; distance > 0; distance /= 2) {
        for (int j = 0; j < width; ++j) before[j] = all[j];
        for (int j = 0; j < width; ++j) all[j] = step.combine(before[j], before[j ^ distance]);
    }
    for (int j = 0; j < width; ++j) step.finish(first + j, lane[j], all[j]);
}

#if defined(__CUDACC__)
// The value that the thread at `distance` has, of any type of 4-byte words. All threads of a warp
// call it.
template <class T>
__device__ T of_lane_at(const T& value, int distance) {
    static_assert(sizeof(T) % sizeof(std::uint32_t) == 0);
    std::uint32_t words[sizeof(T) / sizeof(std::uint32_t)];
    __builtin_memcpy(words, &value, sizeof value);
    for (std::uint32_t& word : words) word = __shfl_xor_sync(~0u, word, distance);
    T other;
    __builtin_memcpy(&other, words, sizeof other);
    return other;
}
#endif

}  // namespace apscope::detail
