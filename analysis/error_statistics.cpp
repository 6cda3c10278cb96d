#include "analysis/error_statistics.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <vector>

#include "analysis/pair_kernels.h"
#include "core/fixed_shape_sum.h"
#include "emulation/simd.h"

namespace apscope {

namespace {

// The sums over one block with numbers that are not finite, lane by lane. A pair that is left out adds zeros, which changes no lane:
// lanes start at +0 and x + (-x) is +0, so none is ever -0.
struct SumBlock {
    static APSCOPE_INLINE void run(const double* x, const double* y, std::size_t count, double* totals) {
        using S = ErrorStatistics;
        LaneSums<7> sums;
        const auto add = [&](std::size_t i, std::size_t lane) {
            const double a = x[i], b = y[i];
            const double e = b - a;
            // e is finite exactly if both are: x and y are far below fp64's largest number.
            const bool finite = (bits_cast<std::uint64_t>(e) & infinity_bits<double>) != infinity_bits<double>;
            const std::uint64_t mask = std::uint64_t{0} - static_cast<std::uint64_t>(finite);
            const auto kept = [mask](double v) { return bits_cast<double>(bits_cast<std::uint64_t>(v) & mask); };
            const double xk = kept(a), yk = kept(b), ek = kept(e);
            // sign(0) = 0: the sign bit of x moves to e where x is not zero.
            const std::uint64_t sign = bits_cast<std::uint64_t>(xk) & sign_bit<double>;
            const double turned = bits_cast<double>(bits_cast<std::uint64_t>(ek) ^ sign);
            sums.lane[S::error][lane] += ek;
            sums.lane[S::squared_error][lane] += ek * ek;
            sums.lane[S::squared_reference][lane] += xk * xk;
            sums.lane[S::absolute_reference][lane] += bits_cast<double>(bits_cast<std::uint64_t>(xk) & ~sign_bit<double>);
            sums.lane[S::signed_error][lane] += xk != 0.0 ? turned : 0.0;
            sums.lane[S::product][lane] += xk * yk;
            sums.lane[S::squared_result][lane] += yk * yk;
        };
        std::size_t i = 0;
        for (; i + sum_lanes <= count; i += sum_lanes) {
            for (std::size_t lane = 0; lane < sum_lanes; ++lane) add(i + lane, lane);
        }
        for (std::size_t lane = 0; i + lane < count; ++lane) add(i + lane, lane);
        for (std::size_t k = 0; k < 7; ++k) totals[k] += sums.join(k);
    }
};

bool finite(double v) { return (bits_cast<std::uint64_t>(v) & infinity_bits<double>) != infinity_bits<double>; }

// Units in the last place of the format at the scaled x: 2^-(max(floor(log2 |S x|), emin) - m).
double per_ulp(double x, const FloatScale& s) {
    const double scaled = std::abs(x) * s.units * s.scale;
    const int exponent = scaled == 0.0 ? s.cast.emin : exponent_of<double>(bits_cast<std::uint64_t>(scaled));
    const int quantum = std::max(exponent, s.cast.emin) - s.cast.mantissa_bits;
    return bits_cast<double>(static_cast<std::uint64_t>(1023 - quantum) << 52);
}

// How max_ulp is found; powers of two within fp32's reach only move exponents.
Ulps ulps_of(const FloatScale* s) {
    if (s == nullptr) return Ulps::none;
    const std::uint64_t bits = bits_cast<std::uint64_t>(s->scale);
    const int exponent = static_cast<int>(bits >> 52) - 1023;
    return s->units == 1.0 && (bits & ((std::uint64_t{1} << 52) - 1)) == 0 && std::abs(exponent) <= 300 ? Ulps::shifted : Ulps::scaled;
}

// Pairs that are not all finite, one by one.
void add_pairs(ErrorStatistics& s, std::span<const double> x, std::span<const double> y, const FloatScale* scale) {
    simd::run<SumBlock>(x.data(), y.data(), x.size(), s.sums.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double a = x[i], b = y[i];
        if (!finite(a)) {
            (a != a ? s.nan : s.infinite) += 1;
            continue;
        }
        s.nonzero += a != 0.0;
        s.underflow += a != 0.0 && b == 0.0;
        if (!finite(b)) {
            ++s.overflow;
            continue;
        }
        ++s.counted;
        if (scale != nullptr && a != b) {
            s.max_ulp = std::max(s.max_ulp, std::abs(b - a) * scale->units * scale->scale * per_ulp(a, *scale));
        }
    }
}

// False, and nothing added, where a number is not finite.
template <class Real>
bool add_finite_pairs(ErrorStatistics& s, std::span<const Real> x, std::span<const Real> y, const FloatScale* scale, const ReferenceSums* known) {
    using S = ErrorStatistics;
    const FloatScale any{};
    const FloatScale* given = scale == nullptr ? &any : scale;
    PairsFound f{};
    const auto add = [&]<Ulps U>() {
        if constexpr (std::is_same_v<Real, float>) {
            if (simd_level() == SimdLevel::avx512) return simd::run_avx512<AddFinitePairs<U, false, true, float>>(x.data(), y.data(), x.size(), given, &f);
            simd::run<AddFinitePairs<U, false, false, float>>(x.data(), y.data(), x.size(), given, &f);
        } else {
            if (known != nullptr) simd::run<AddFinitePairs<U, true, false, double>>(x.data(), y.data(), x.size(), given, &f);
            else simd::run<AddFinitePairs<U, false, false, double>>(x.data(), y.data(), x.size(), given, &f);
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

}  // namespace

ReferenceSums reference_sums(std::span<const double> x) {
    ReferenceSums r;
    simd::run<AddReference>(x.data(), x.size(), &r.squared, &r.absolute, &r.zeros);
    return r;
}

template <class Real>
void ErrorStatistics::add_block(std::span<const Real> x, std::span<const Real> y, const FloatScale* scale, std::span<const double> bias,
                                std::span<const double> variance, const ReferenceSums* known) {
    count += x.size();
    if (add_finite_pairs(*this, x, y, scale, known)) {
        if (bias.empty()) return;
        simd::run<SumRow>(bias.data(), x.size(), &sums[expected_error]);
        simd::run<SumRow>(variance.data(), x.size(), &sums[expected_variance]);
        return;
    }
    add_pairs(*this, std::vector<double>(x.begin(), x.end()), std::vector<double>(y.begin(), y.end()), scale);
    if (bias.empty()) return;
    const auto pair = [&](std::size_t i, double v) { return finite(x[i]) && finite(y[i]) ? v : 0.0; };
    sums[expected_error] += block_sum(x.size(), [&](std::size_t i) { return pair(i, bias[i]); });
    sums[expected_variance] += block_sum(x.size(), [&](std::size_t i) { return pair(i, variance[i]); });
}
template void ErrorStatistics::add_block(std::span<const float>, std::span<const float>, const FloatScale*, std::span<const double>,
                                         std::span<const double>, const ReferenceSums*);
template void ErrorStatistics::add_block(std::span<const double>, std::span<const double>, const FloatScale*, std::span<const double>,
                                         std::span<const double>, const ReferenceSums*);

void ErrorStatistics::count_limits(std::span<const double> x, std::span<const double> codes, const FloatScale& s) {
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double scaled = std::abs(x[i] * s.scale);
        if (!finite(scaled)) continue;
        subnormal += scaled != 0.0 && scaled < s.smallest_normal;
        saturated += scaled > s.largest && std::abs(codes[i]) == s.largest;
    }
}

void ErrorStatistics::count_limits(std::span<const float> x, std::span<const float> y, float smallest_normal, float largest) {
    std::uint64_t found[2] = {};
    simd::run<CountLimits>(x.data(), y.data(), x.size(), smallest_normal, largest, found + 0, found + 1);
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
    max_ulp = std::max(max_ulp, next.max_ulp);
    moments_defined = moments_defined && next.moments_defined;
}

}  // namespace apscope
