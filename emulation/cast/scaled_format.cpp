#include "emulation/cast/scaled_format.h"

#include <cstdlib>

namespace apscope::detail {

std::optional<FloatFormat> scaled_format(const FloatFormat& format, int k) {
    // Beyond, a scale leaves no value of fp32's; within, every limit is far inside fp64.
    if (std::abs(k) > 300 || !format.fits_fp32()) return std::nullopt;
    FloatFormat scaled = format;
    scaled.bias += k;
    scaled.subnormal_exponent -= k;
    if (!scaled.fits_fp32()) return std::nullopt;
    return scaled;
}

QuantizeJob<float> make_row_job(const FloatFormat& format, const Projection& projection) {
    const Cast<float> cast = make_cast<float>(format, projection);
    QuantizeJob<float> job{cast, projection.rounding, quantize_path<float>(format, projection), {}, {}, {}};
    if (job.path == QuantizePath::split) job.split = make_split_cast(format, cast);
    return job;
}

void round_row(QuantizeJob<float>& job, const float* in, float* out, std::size_t count, const RandomStream& stream, std::uint64_t first) {
    job.stream = stream;
    job.random.first_element = first;
    quantize_piece(job, in, out, 0, count);
}

}  // namespace apscope::detail
