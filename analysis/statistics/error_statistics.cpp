#include "analysis/statistics/error_statistics.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <vector>

#include "analysis/statistics/pair_kernels.h"
#include "core/fixed_shape_sum.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

bool finite(double v) {
    return (bits_cast<std::uint64_t>(v) & infinity_bits<double>) != infinity_bits<double>;
}

// The way to compute max_ulp. A scale that is a power of two within fp32's range only moves
// exponents.
Ulps ulps_of(const FloatScale* s) {
    if (s == nullptr) return Ulps::none;
    const std::uint64_t bits = bits_cast<std::uint64_t>(s->scale);
    const int exponent = static_cast<int>(bits >> 52) - 1023;
    return s->units == 1.0 && (bits & ((std::uint64_t{1} << 52) - 1)) == 0 &&
                   std::abs(exponent) <= 300
               ? Ulps::shifted
               : Ulps::scaled;
}

// Returns false, and adds nothing, if a number is not finite.
template <class Real>
bool add_finite_pairs(ErrorStatistics& s, std::span<const Real> x, std::span<const Real> y,
                      const FloatScale* scale, const ReferenceSums* known) {
    using S = ErrorStatistics;
    const FloatScale any{};
    const FloatScale* given = scale == nullptr ? &any : scale;
    PairsFound f{};
    const auto add = [&]<Ulps U>() {
        if constexpr (std::is_same_v<Real, float>) {
            if (simd_level() == SimdLevel::avx512)
                return simd::run_avx512<AddFinitePairs<U, false, true, float>>(x.data(), y.data(),
                                                                               x.size(), given, &f);
            simd::run<AddFinitePairs<U, false, false, float>>(x.data(), y.data(), x.size(), given,
                                                              &f);
        } else {
            if (known != nullptr)
                simd::run<AddFinitePairs<U, true, false, double>>(x.data(), y.data(), x.size(),
                                                                  given, &f);
            else
                simd::run<AddFinitePairs<U, false, false, double>>(x.data(), y.data(), x.size(),
                                                                   given, &f);
        }
    };
    switch (ulps_of(scale)) {
        case Ulps::none: add.template operator()<Ulps::none>(); break;
        case Ulps::shifted: add.template operator()<Ulps::shifted>(); break;
        case Ulps::scaled: add.template operator()<Ulps::scaled>(); break;
    }
    if (std::is_same_v<Real, double> && known != nullptr) {
        f.sums[S::squared_reference] = known->squared;
        f.sums[S::absolute_reference] = known->absolute;
        f.zero = known->zeros;
    }
    if (!finite(f.sums[S::squared_reference]) || !finite(f.sums[S::squared_result])) return false;
    for (std::size_t k = 0; k < std::size(f.sums); ++k) s.sums[k] += f.sums[k];
    s.counted += x.size();
    s.nonzero += x.size() - f.zero;
    s.underflow += f.lost;
    s.max_ulp = std::max(s.max_ulp, f.max_ulp);
    return true;
}

// Adds pairs that are not all finite.
template <class Real>
void add_pairs(ErrorStatistics& s, std::span<const Real> x, std::span<const Real> y,
               const FloatScale* scale) {
    std::vector<Real> kept(2 * x.size());
    const std::span<Real> kept_x = std::span(kept).first(x.size()),
                          kept_y = std::span(kept).last(x.size());
    LeftOut left{};
    simd::run<LeaveOut<Real>>(x.data(), y.data(), x.size(), kept_x.data(), kept_y.data(), &left);
    add_finite_pairs<Real>(s, kept_x, kept_y, scale, nullptr);
    s.counted -= left.pairs;
    s.nan += left.nan;
    s.infinite += left.infinite;
    s.overflow += left.pairs - left.nan - left.infinite;
    s.nonzero += left.nonzero;
}

}  // namespace

ReferenceSums reference_sums(std::span<const double> x) {
    ReferenceSums r;
    simd::run<AddReference>(x.data(), x.size(), &r.squared, &r.absolute, &r.zeros);
    return r;
}

template <class Real>
void ErrorStatistics::add_block(std::span<const Real> x, std::span<const Real> y,
                                const FloatScale* scale, std::span<const double> bias,
                                std::span<const double> variance, const ReferenceSums* known) {
    count += x.size();
    if (add_finite_pairs(*this, x, y, scale, known)) {
        if (bias.empty()) return;
        simd::run<SumRow>(bias.data(), x.size(), &sums[expected_error]);
        simd::run<SumRow>(variance.data(), x.size(), &sums[expected_variance]);
        return;
    }
    add_pairs(*this, x, y, scale);
    if (bias.empty()) return;
    const auto pair = [&](std::size_t i, double v) {
        return finite(x[i]) && finite(y[i]) ? v : 0.0;
    };
    sums[expected_error] += block_sum(x.size(), [&](std::size_t i) { return pair(i, bias[i]); });
    sums[expected_variance] +=
        block_sum(x.size(), [&](std::size_t i) { return pair(i, variance[i]); });
}
template void ErrorStatistics::add_block(std::span<const float>, std::span<const float>,
                                         const FloatScale*, std::span<const double>,
                                         std::span<const double>, const ReferenceSums*);
template void ErrorStatistics::add_block(std::span<const double>, std::span<const double>,
                                         const FloatScale*, std::span<const double>,
                                         std::span<const double>, const ReferenceSums*);

void ErrorStatistics::count_limits(std::span<const double> x, std::span<const double> codes,
                                   const FloatScale& s) {
    std::uint64_t found[2] = {};
    simd::run<CountLimits<double>>(x.data(), codes.data(), x.size(), s.scale, s.smallest_normal,
                                   s.largest, found + 0, found + 1);
    subnormal += found[0];
    saturated += found[1];
}

void ErrorStatistics::count_limits(std::span<const float> x, std::span<const float> y,
                                   float smallest_normal, float largest) {
    std::uint64_t found[2] = {};
    simd::run<CountLimits<float>>(x.data(), y.data(), x.size(), 1.0f, smallest_normal, largest,
                                  found + 0, found + 1);
    subnormal += found[0];
    saturated += found[1];
}

void ErrorStatistics::merge(const ErrorStatistics& next) {
    count += next.count;
    counted += next.counted;
    nonzero += next.nonzero;
    underflow += next.underflow;
    subnormal += next.subnormal;
    saturated += next.saturated;
    overflow += next.overflow;
    nan += next.nan;
    infinite += next.infinite;
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += next.sums[k];
    split.merge(next.split);
    over_noise.merge(next.over_noise);
    max_ulp = std::max(max_ulp, next.max_ulp);
    moments_defined = moments_defined && next.moments_defined;
}

}  // namespace apscope::detail
