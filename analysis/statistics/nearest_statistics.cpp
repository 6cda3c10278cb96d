#include "analysis/statistics/nearest_statistics.h"

#include <algorithm>

#include "emulation/cast/cast_plan.h"

namespace apscope::detail {

namespace {

template <StoreMode Store>
void run(const float* in, float* out, std::size_t count, const NearestCast* cast,
         NearestFound* found) {
    if (simd_level() == SimdLevel::avx512)
        simd::run_avx512<CastAndCompare<true, Store>>(in, out, count, cast, found);
    else simd::run<CastAndCompare<false, Store>>(in, out, count, cast, found);
}

}  // namespace

std::optional<NearestCast> make_nearest_cast(const FloatFormat& format,
                                             const Projection& projection) {
    if (!format.fits_fp32() || projection.rounding != RoundingMode::ties_to_even) return {};
    const CastPlan<float> plan = make_plan<float>(format, projection);
    if (plan.path != CastPath::addition || format.mantissa_bits < 1) return {};
    // Without subnormal numbers, the smallest normal number differs from 2^emin.
    if (bits_cast<std::uint32_t>(static_cast<float>(format.smallest_normal())) !=
        plan.addition.grid.least)
        return {};
    return NearestCast{plan.addition.grid, plan.cast.negative_zero, plan.cast.largest};
}

bool add_nearest(ErrorStatistics& s, const float* in, float* out, std::size_t count,
                 const NearestCast& cast, StoreMode how) {
    NearestFound f{};
    switch (how) {
        case StoreMode::unused: run<StoreMode::unused>(in, out, count, &cast, &f); break;
        case StoreMode::stored: run<StoreMode::stored>(in, out, count, &cast, &f); break;
        case StoreMode::streamed: run<StoreMode::streamed>(in, out, count, &cast, &f); break;
    }
    if (f.max > cast.largest) return false;
    // Errors of less than 2^-126 quanta lose digits in fp32.
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
