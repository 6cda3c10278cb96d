#include "analysis/cuda/error_choice.h"
#include "analysis/cuda/error_cuda.h"
#include "emulation/cuda/machine/device_memory.h"
#include "emulation/cuda/machine/launch.h"

namespace apscope::detail {

ErrorStatistics quantize_statistics_on_device(const float* in, float* out, std::size_t n,
                                              const FloatFormat& format,
                                              const Projection& projection, std::uint64_t seed,
                                              cudaStream_t stream) {
    const DeviceMemory<ErrorBlock> blocks((n + sum_block - 1) / sum_block, stream);
    const DeviceMemory<ErrorTotalStep::Totals> total(1, stream);
    with_error_step(in, out, n, format, projection, seed, blocks.get(),
                    [&](const auto& step) { launch(step, stream); });
    launch(ErrorTotalStep{blocks.get(), (n + sum_block - 1) / sum_block, total.get()}, stream);
    return error_statistics_of(n, total.read()[0]);
}

ResultRow cast_statistics_on_device(const float* in, float* out, std::size_t n,
                                    const FloatFormat& format, const Projection& projection,
                                    std::uint64_t seed, cudaStream_t stream) {
    require_counted(projection.rounding, "error statistics");
    const ErrorStatistics statistics =
        quantize_statistics_on_device(in, out, n, format, projection, seed, stream);
    ResultRow row;
    row.wire = true;
    row.format = format.name();
    fill_columns(row, statistics,
                 has_moments(projection) ? Moments::closed_form : Moments::deterministic, true);
    return row;
}

}  // namespace apscope::detail
