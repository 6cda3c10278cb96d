#include "emulation/cast/scaled_format.h"

#include <cstdlib>

namespace apscope::detail {

std::optional<FloatFormat> scaled_format(const FloatFormat& format, int k) {
    // If |k| > 300, no value is left in fp32's range. Otherwise every limit is far inside fp64's
    // range.
    if (std::abs(k) > 300 || !format.fits_fp32()) return std::nullopt;
    FloatFormat scaled = format;
    scaled.bias += k;
    scaled.subnormal_exponent -= k;
    if (!scaled.fits_fp32()) return std::nullopt;
    return scaled;
}

std::optional<FloatFormat> narrow_format(const FloatFormat& format, const Projection& projection,
                                         int k) {
    if (projection.rounding == RoundingMode::stochastic_exact) return std::nullopt;
    return scaled_format(format, k);
}

QuantizeJob<float> make_row_job(const FloatFormat& format, const Projection& projection) {
    return {make_plan<float>(format, projection), {}, {}};
}

void round_row(QuantizeJob<float>& job, const float* in, float* out, std::size_t count,
               const RandomStream& stream, std::uint64_t first) {
    job.stream = stream;
    job.random.first_element = first;
    quantize_piece(job, in, out, 0, count);
}

}  // namespace apscope::detail
