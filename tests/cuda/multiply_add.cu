// A kernel of fused multiply-adds in registers, eight independent chains a thread.
#include "emulation/cuda/machine/check.h"
#include "gpu.h"

namespace apscope::detail::gpu {

namespace {

constexpr int steps = 4096, chains = 8, threads = 256;

__global__ void multiply_add(float* out, float factor) {
    float value[chains];
    for (int c = 0; c < chains; ++c) value[c] = static_cast<float>(threadIdx.x + c);
    for (int i = 0; i < steps; ++i) {
#pragma unroll
        for (int c = 0; c < chains; ++c) value[c] = __fmaf_rn(value[c], factor, 1.0f);
    }
    float sum = 0;
    for (int c = 0; c < chains; ++c) sum += value[c];
    if (sum == 0.0f) *out = sum;  // never true, but the compiler must keep the chains
}

}  // namespace

double multiply_adds_a_second() {
    cudaDeviceProp device{};
    APSCOPE_CUDA(cudaGetDeviceProperties(&device, 0));
    const int blocks = device.multiProcessorCount * 32;
    const Array<float> out(1);
    const double seconds =
        median_seconds([&] { multiply_add<<<blocks, threads>>>(out.get(), 0.5f); });
    APSCOPE_CUDA(cudaGetLastError());
    return static_cast<double>(blocks) * threads * steps * chains / seconds;
}

}  // namespace apscope::detail::gpu
