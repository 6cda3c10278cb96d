#include <algorithm>

#include "emulation/cuda/check.h"
#include "emulation/cuda/quantize_cuda.h"
#include "emulation/cuda/quantize_group.h"

namespace apscope {

namespace {

constexpr int threads_per_block = 256;

template <RoundingMode M>
__global__ void __launch_bounds__(threads_per_block) quantize_kernel(const QuantizeArguments arguments) {
    const std::uint64_t groups = group_count<M>(arguments);
    const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
    for (std::uint64_t g = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; g < groups; g += stride) {
        quantize_group<M>(arguments, g);
    }
}

// Enough blocks to fill the current device several times over, and no more than there is work for.
unsigned block_count(std::uint64_t groups) {
    int device = 0, processors = 0;
    APSCOPE_CUDA(cudaGetDevice(&device));
    APSCOPE_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    const std::uint64_t wanted = (groups + threads_per_block - 1) / threads_per_block;
    return static_cast<unsigned>(std::min<std::uint64_t>(wanted, std::uint64_t{32} * processors));
}

}  // namespace

void quantize_on_device(const float* in, float* out, std::size_t n, const FloatFormat& format, const Projection& projection,
                        std::uint64_t seed, CUstream_st* stream, std::uint64_t first_element) {
    validate(projection, format);
    require_fp32(format, "an array of fp32 numbers");
    if (n == 0) return;
    const QuantizeArguments arguments{in, out, n, first_element, make_cast<float>(format, projection),
                                      array_stream(seed, projection.drawn_bits())};
    dispatch(projection.rounding, [&]<RoundingMode M>() {
        quantize_kernel<M><<<block_count(group_count<M>(arguments)), threads_per_block, 0, stream>>>(arguments);
    });
    APSCOPE_CUDA(cudaGetLastError());
}

}  // namespace apscope
