#include "analysis/cuda/error_choice.h"
#include "analysis/cuda/error_cuda.h"
#include "emulation/cuda/machine/device_memory.h"
#include "emulation/cuda/machine/launch.h"

namespace apscope::detail {

namespace {

class Partials {
public:
    Partials(std::uint64_t places, bool with_moments, cudaStream_t stream)
        : sums_(error_sums * places, stream), counts_(ErrorCounts::size * places, stream),
          max_ulp_(places, stream), moments_(with_moments ? moment_sums * places : 0, stream),
          places_(places) {}

    ErrorPartials get() const {
        return {sums_.get(), counts_.get(), max_ulp_.get(), moments_.get(), places_};
    }
    ErrorStatistics read(std::size_t n) const {
        const std::vector<double> moments = moments_.read();
        return error_statistics_of(n, sums_.read().data(), counts_.read().data(),
                                   max_ulp_.read()[0], moments.empty() ? nullptr : moments.data());
    }

private:
    DeviceMemory<double> sums_;
    DeviceMemory<std::uint64_t> counts_;
    DeviceMemory<double> max_ulp_, moments_;
    std::uint64_t places_;
};

}  // namespace

ErrorStatistics quantize_statistics_on_device(const float* in, float* out, std::size_t n,
                                              const FloatFormat& format,
                                              const Projection& projection, double scale,
                                              std::uint64_t seed, cudaStream_t stream) {
    const std::uint64_t block_count = (n + sum_block - 1) / sum_block;
    const bool moments = has_moments(projection);
    const Partials lanes(block_count * sum_lanes, moments, stream),
        blocks(block_count, moments, stream), total(1, moments, stream);
    with_error_step(in, out, n, format, projection, scale, seed, nullptr, lanes.get(),
                    [&](const auto& step) { launch(step, stream); });
    launch(ErrorBlockStep{lanes.get(), blocks.get()}, stream);
    launch(ErrorTotalStep{blocks.get(), total.get()}, stream);
    return total.read(n);
}

ResultRow cast_statistics_on_device(const float* in, float* out, std::size_t n,
                                    const FloatFormat& format, const Projection& projection,
                                    std::uint64_t seed, cudaStream_t stream) {
    require_counted(projection.rounding, "error statistics");
    const ErrorStatistics statistics =
        quantize_statistics_on_device(in, out, n, format, projection, 1.0, seed, stream);
    ResultRow row;
    row.wire = true;
    row.format = format.name();
    fill_columns(row, statistics,
                 has_moments(projection) ? Moments::closed_form : Moments::deterministic, true);
    return row;
}

}  // namespace apscope::detail
