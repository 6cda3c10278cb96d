// The only two kernels. They run a step: a function object for host and device with count() items
// of work, of which operator()(i) does item i; or, if threads share results, begin() and finish()
// (lane_group.h). A CPU that runs the items one by one, in any order, or group by group, computes
// the same results; the tests run steps in this way (run_on_cpu in tests/support/cuda_inputs.h).
//
// The grid has one thread per item, up to 32 blocks per multiprocessor; if there are more items,
// the threads stride through the rest. Neighbouring threads take neighbouring items.
#pragma once

#include <algorithm>
#include <cstdint>

#include "emulation/cuda/machine/check.h"
#include "emulation/cuda/machine/lane_group.h"

namespace apscope::detail {

inline constexpr int threads_per_block = 256;

template <class Step>
__global__ void __launch_bounds__(threads_per_block) run_steps(const __grid_constant__ Step step) {
    const std::uint64_t count = step.count(), stride = std::uint64_t{gridDim.x} * blockDim.x;
    for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
         i += stride)
        step(i);
}

// A warp whose last items are beyond the count runs them without begin() and finish(), because all
// threads of a warp take part in a shuffle.
template <LaneGroupStep Step>
__global__ void __launch_bounds__(threads_per_block) run_groups(const __grid_constant__ Step step) {
    const std::uint64_t count = step.count(), stride = std::uint64_t{gridDim.x} * blockDim.x;
    for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
         i - threadIdx.x % 32 < count; i += stride) {
        typename Step::Lane lane{};
        if (i < count) lane = step.begin(i);
        auto all = step.share(lane);
        for (int distance = Step::width / 2; distance > 0; distance /= 2)
            all = step.combine(all, of_lane_at(all, distance));
        if (i < count) step.finish(i, lane, all);
    }
}

// Puts the step on `stream` of the current device and returns without waiting for it.
template <class Step>
void launch(const Step& step, cudaStream_t stream) {
    const std::uint64_t items = step.count();
    if (items == 0) return;
    int device = 0, processors = 0;
    APSCOPE_CUDA(cudaGetDevice(&device));
    APSCOPE_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    const std::uint64_t most = (items + threads_per_block - 1) / threads_per_block;
    const auto blocks = static_cast<unsigned>(
        std::min<std::uint64_t>(most, std::uint64_t{32} * static_cast<unsigned>(processors)));
    if constexpr (LaneGroupStep<Step>) run_groups<<<blocks, threads_per_block, 0, stream>>>(step);
    else run_steps<<<blocks, threads_per_block, 0, stream>>>(step);
    APSCOPE_CUDA(cudaGetLastError());
}

}  // namespace apscope::detail
