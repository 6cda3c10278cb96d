// What one lane of the fixed-shape sums (core/fixed_shape_sum.h) adds up in a GPU thread: the sums
// of analysis/statistics/error_statistics.h over its pairs, bit for bit, and their counts.
//
//      ErrorLane     any pairs
//      NarrowLane    pairs of fp32 numbers and of their roundings to a regular format
//      MomentLane    the moments of stochastic rounding
#pragma once

#include <algorithm>
#include <cstdint>

#include "analysis/statistics/pair_update.h"
#include "emulation/cuda/allreduce/hop_rounding.h"

namespace apscope::detail {

struct ErrorCounts {
    enum Count { counted, nonzero, underflow, subnormal, saturated, overflow, nan, infinite, size };
};

// The moments of stochastic rounding, added up by one lane over the pairs of finite numbers.
struct MomentLane {
    double error = 0.0, variance = 0.0;
    std::uint32_t undefined = 0;

    APSCOPE_HD void add(double x, double y, const RoundingMoments& m) {
        undefined += !m.defined;
        const double e = y - x;
        if ((bits_cast<std::uint64_t>(e) & infinity_bits<double>) == infinity_bits<double>) return;
        error += m.bias;
        variance += m.variance;
    }
};

// One lane's sums and counters.
struct ErrorLane {
    double sum[error_sums] = {};
    std::uint32_t count[ErrorCounts::size] = {};
    double max_ulp = 0.0;

    APSCOPE_HD static bool finite(double v) {
        return (bits_cast<std::uint64_t>(v) & infinity_bits<double>) != infinity_bits<double>;
    }

    // Counts x if it is subnormal or saturates in the format; `code` is x scaled and rounded.
    APSCOPE_HD void add_limits(double x, double code, const FloatScale& s) {
        using C = ErrorCounts;
        count_limits(absolute(x * s.scale), absolute(code), s.smallest_normal, s.largest,
                     count[C::subnormal], count[C::saturated]);
    }

    // Adds the pair of x and its result y.
    APSCOPE_HD void add_pair(double x, double y, const FloatScale& s) {
        using C = ErrorCounts;
        if (!finite(x)) {
            count[C::nan] += x != x;  // constant indices keep the array in registers
            count[C::infinite] += x == x;
            return;
        }
        count[C::nonzero] += x != 0.0;
        count[C::underflow] += x != 0.0 && y == 0.0;
        if (!finite(y)) {
            ++count[C::overflow];
            return;
        }
        ++count[C::counted];
        const double e = y - x;
        update_sums<PairTraits{}>(x, y, e, x == 0.0, [&](int k) -> double& { return sum[k]; });
        if (x != y) {
            const double error =
                in_ulps<Ulps::scaled>(absolute(x), absolute(e), ulp_scale<Ulps::scaled>(s));
            max_ulp = error > max_ulp ? error : max_ulp;
        }
    }
};

// The limits of a format, for fp32 numbers without a scale.
struct NarrowLimits {
    std::uint32_t largest, smallest_normal;  // bits of fp32 numbers
    std::uint32_t ulp_min, ulp_top;          // the upper halves of UlpScale's numbers

    // `s` has neither a scale nor units. Zeros are below every limit, also that of a format without
    // normal numbers, which is 0.
    static NarrowLimits of(const FloatScale& s) {
        const UlpScale ulps = ulp_scale<Ulps::shifted>(s);
        return {bits_cast<std::uint32_t>(static_cast<float>(s.largest)),
                std::max(bits_cast<std::uint32_t>(static_cast<float>(s.smallest_normal)), 1u),
                static_cast<std::uint32_t>(ulps.min >> 32),
                static_cast<std::uint32_t>(ulps.top >> 32)};
    }
};

// The pairs of fp32 numbers take the same steps, as follows. The format is signed and has a zero,
// so that the error of a zero is 0, and a number that is not beyond the largest has a finite
// result. A pair that is not finite is replaced by a pair of zeros, which changes no sum (LeaveOut
// in analysis/statistics/pair_kernels.h). Products are exact in fp64, and therefore fused with
// their addition, except the square of an error. Conditions are comparisons of bits, as numbers.
struct NarrowLane {
    double sum[error_sums] = {};
    double max_ulp = 0.0;
    // The numbers of pairs with x = 0, with y = 0 and with |x| < the smallest normal number, after
    // the replacement.
    std::uint32_t zero = 0, lost = 0, below = 0;
    std::uint32_t saturated = 0, overflow = 0, nan = 0, infinite = 0;

    template <int Rows>
    APSCOPE_HD void add(float (&x)[Rows], float (&y)[Rows], const NarrowLimits& limits) {
        std::uint32_t greatest = 0;
        for (const float number : x)
            greatest = size_of(number) > greatest ? size_of(number) : greatest;
        if (greatest > limits.largest) {
            for (int r = 0; r < Rows; ++r) add_beyond(x[r], y[r], limits);
        }
        for (int r = 0; r < Rows; ++r) add_finite(x[r], y[r], limits);
    }

    // The lane's sums and counts: it added `added` pairs, of which `missing` were pairs of zeros in
    // place of elements beyond the end.
    APSCOPE_HD ErrorLane get(std::uint32_t added, std::uint32_t missing) const {
        using C = ErrorCounts;
        ErrorLane lane;
        for (int k = 0; k < error_sums; ++k) lane.sum[k] = sum[k];
        lane.max_ulp = max_ulp;
        lane.count[C::counted] = added - missing - nan - infinite - overflow;
        lane.count[C::nonzero] = added - zero + overflow;
        lane.count[C::underflow] = lost - zero;
        lane.count[C::subnormal] = below - zero;
        lane.count[C::saturated] = saturated;
        lane.count[C::overflow] = overflow;
        lane.count[C::nan] = nan;
        lane.count[C::infinite] = infinite;
        return lane;
    }

private:
    APSCOPE_HD static std::uint32_t size_of(float number) {
        return bits_cast<std::uint32_t>(number) & ~sign_bit<float>;
    }
    // 1 if a < b, else 0; both are below 2^31.
    APSCOPE_HD static std::uint32_t less(std::uint32_t a, std::uint32_t b) { return (a - b) >> 31; }

    // Counts what only numbers beyond the largest are, and replaces pairs that are not finite.
    APSCOPE_HD void add_beyond(float& x, float& y, const NarrowLimits& limits) {
        constexpr std::uint32_t infinity = infinity_bits<float>;
        const std::uint32_t size = size_of(x), result = size_of(y);
        nan += size > infinity;
        infinite += size == infinity;
        overflow += (size < infinity) & (result >= infinity);
        saturated += (size > limits.largest) & (size < infinity) & (result == limits.largest);
        if ((size >= infinity) | (result >= infinity)) x = y = 0.0f;
    }
    APSCOPE_HD void add_finite(float x, float y, const NarrowLimits& limits) {
        const std::uint32_t size = size_of(x);
        zero += less(size, 1);
        lost += less(size_of(y), 1);
        below += less(size, limits.smallest_normal);
        const double a = x, b = y, e = b - a;
        update_sums<PairTraits{true}>(a, b, e, false, [&](int k) -> double& { return sum[k]; });
        // in_ulps() by the upper halves of its numbers, whose lower halves are 0.
        const auto exponent =
            static_cast<std::uint32_t>(bits_cast<std::uint64_t>(a) >> 32) & 0x7FF00000u;
        const std::uint32_t top = exponent > limits.ulp_min ? exponent : limits.ulp_min;
        const double ulps =
            absolute(e) * bits_cast<double>(static_cast<std::uint64_t>(limits.ulp_top - top) << 32);
        max_ulp = ulps > max_ulp ? ulps : max_ulp;
    }
};

}  // namespace apscope::detail
