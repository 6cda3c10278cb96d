#include "analysis/statistics/nearest_statistics.h"

#include <algorithm>

#include "emulation/cast/quantize.h"

namespace apscope::detail {

namespace {

template <Casted How>
void run(const float* in, float* out, std::size_t count, const NearestCast* cast, NearestFound* found) {
    if (simd_level() == SimdLevel::avx512) simd::run_avx512<CastAndCompare<true, How>>(in, out, count, cast, found);
    else simd::run<CastAndCompare<false, How>>(in, out, count, cast, found);
}

}  // namespace

std::optional<NearestCast> make_nearest_cast(const FloatFormat& format, const Projection& projection) {
    if (!format.fits_fp32() || quantize_path<float>(format, projection) != QuantizePath::addition) return {};
    const Cast<float> cast = make_cast<float>(format, projection);
    constexpr std::uint32_t half = 0x00400000;  // c is in the middle of its binade, so that sums with either sign stay there
    const int m = format.mantissa_bits;
    if (m < 1 || m > 21) return {};
    NearestCast c;
    c.least = static_cast<std::uint32_t>(cast.emin + 127) << 23;
    // Without subnormals the smallest normal number is another limit.
    if (bits_cast<std::uint32_t>(static_cast<float>(format.smallest_normal())) != c.least) return {};
    c.lift = (static_cast<std::uint32_t>(23 - m) << 23) + half;
    c.inverse = (std::uint32_t{254 + 23} << 23) + half;
    c.zero_sign = cast.negative_zero;
    c.largest = cast.largest;
    return c;
}

bool add_nearest(ErrorStatistics& s, const float* in, float* out, std::size_t count, const NearestCast& cast, Casted how) {
    NearestFound f{};
    switch (how) {
        case Casted::unused: run<Casted::unused>(in, out, count, &cast, &f); break;
        case Casted::stored: run<Casted::stored>(in, out, count, &cast, &f); break;
        case Casted::streamed: run<Casted::streamed>(in, out, count, &cast, &f); break;
    }
    if (f.most > cast.largest) return false;
    // Errors of less than 2^-126 quanta may be anything in fp32.
    const float ulps = bits_cast<float>(f.ulps);
    if (ulps < 0x1p-100f && f.sums[ErrorStatistics::squared_error] != 0.0) return false;
    s.count += count;
    s.counted += count;
    s.nonzero += count - f.zero;
    s.underflow += f.lost - f.zero;
    s.subnormal += f.below - f.zero;
    for (std::size_t k = 0; k < std::size(f.sums); ++k) s.sums[k] += f.sums[k];
    s.max_ulp = std::max(s.max_ulp, static_cast<double>(ulps));
    return true;
}

}  // namespace apscope::detail
