// The only kernel. It runs a step: a function object for host and device with count() items of
// work, of which operator()(i) does item i. A CPU that runs the items one by one, in any order,
// computes the same results; tests/emulation/cuda/test_cuda_rule.cpp runs steps in this way.
//
// The grid has one thread per item, up to 32 blocks per multiprocessor; if there are more items,
// the threads stride through the rest. Neighbouring threads take neighbouring items.
#pragma once

#include <algorithm>
#include <cstdint>

#include "emulation/cuda/machine/check.h"

namespace apscope::detail {

inline constexpr int threads_per_block = 256;

template <class Step>
__global__ void __launch_bounds__(threads_per_block) run_steps(const __grid_constant__ Step step) {
    const std::uint64_t count = step.count(), stride = std::uint64_t{gridDim.x} * blockDim.x;
    for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
         i += stride)
        step(i);
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
    run_steps<<<blocks, threads_per_block, 0, stream>>>(step);
    APSCOPE_CUDA(cudaGetLastError());
}

}  // namespace apscope::detail
