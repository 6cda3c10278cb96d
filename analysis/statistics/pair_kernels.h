// The loops of ErrorStatistics over pairs of numbers, for blocks in which all are finite, and a
// function that converts other blocks, compiled per instruction set by simd::run(). Sums have the
// shape of core/fixed_shape_sum.h; counts and maxima do not depend on the order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "analysis/statistics/pair_update.h"
#include "core/fixed_shape_sum.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// The sums of a block of pairs. If any number is infinite or NaN, a sum of squares is not finite.
// If all numbers are finite and no larger than fp32 numbers or sums of them, all sums are finite.
struct PairsFound {
    double sums[error_sums];
    std::uint64_t zero,  // number of pairs with x = 0
        lost;            // number of pairs with y = 0 and x != 0
    double max_ulp;
};

// Adds the sum of a block's row to `total`.
struct SumRow {
    static APSCOPE_INLINE void run(const double* row, std::size_t count, double* total) {
        *total += block_sum(count, [&](std::size_t i) { return row[i]; });
    }
};

// Counts the finite scaled values below the smallest normal number, and those beyond the largest
// number that were rounded to it.
template <class Real>
struct CountLimits {
    static APSCOPE_INLINE void run(const Real* x, const Real* y, std::size_t count, Real scale,
                                   Real smallest_normal, Real largest, std::uint64_t* subnormal,
                                   std::uint64_t* saturated) {
        BitsOf<Real> below = 0, above = 0;  // 32 bits are enough for a block
        for (std::size_t i = 0; i < count; ++i)
            detail::count_limits(absolute(x[i] * scale), absolute(y[i]), smallest_normal, largest,
                                 below, above);
        *subnormal += below;
        *saturated += above;
    }
};

// Sums, counts and the largest error in units in the last place. fp32 numbers are widened first:
// their products are exact in fp64, and Fused may be set. Known: sums that depend only on x are
// skipped.
template <Ulps U, bool Known, bool Fused, class Real>
struct AddFinitePairs {
    static_assert(!Fused || sizeof(Real) == sizeof(float));
    static APSCOPE_INLINE void run(const Real* x, const Real* y, std::size_t count,
                                   const FloatScale* given, PairsFound* found) {
        // Local variables, which stay in registers.
        LaneSums<error_sums> sums;
        using Count = BitsOf<Real>;
        Count zero[sum_lanes] = {}, lost[sum_lanes] = {};
        double ulp[sum_lanes] = {};
        const UlpScale ulps = ulp_scale<U>(*given);
        const auto add = [&](std::size_t i, std::size_t lane) __attribute__((always_inline)) {
            const double a = x[i], b = y[i], e = b - a;
            const bool is_zero = x[i] == 0, is_lost = (x[i] != 0) & (y[i] == 0);
            update_sums<PairTraits{Fused, false, Known}>(
                a, b, e, is_zero, [&](int k) __attribute__((always_inline)) -> double& {
                    return sums.lane[k][lane];
                });
            if constexpr (!Known) zero[lane] += is_zero;
            lost[lane] += is_lost;
            if constexpr (U != Ulps::none) {
                const double error = in_ulps<U>(absolute(a), absolute(e), ulps);
                ulp[lane] = error > ulp[lane] ? error : ulp[lane];
            }
        };
        std::size_t i = 0;
        for (; i + sum_lanes <= count; i += sum_lanes) {
            for (std::size_t lane = 0; lane < sum_lanes; ++lane) add(i + lane, lane);
        }
        for (std::size_t lane = 0; i + lane < count; ++lane) add(i + lane, lane);
        PairsFound f{};
        for (int k = 0; k < error_sums; ++k) f.sums[k] = sums.join(static_cast<std::size_t>(k));
        for (std::size_t lane = 0; lane < sum_lanes; ++lane) {
            f.zero += zero[lane];
            f.lost += lost[lane];
            f.max_ulp = ulp[lane] > f.max_ulp ? ulp[lane] : f.max_ulp;
        }
        *found = f;
    }
};

// The numbers of pairs that LeaveOut replaces by zeros: all of them, those with x NaN, those with x
// infinite, and those with x finite and not zero.
struct LeftOut {
    std::uint64_t pairs, nan, infinite;
    std::uint64_t nonzero;
};
// Copies a block with zeros in place of pairs that are not both finite, and counts these pairs. A
// pair of zeros changes no sum: lanes start at +0 and x + (-x) is +0, so no lane is ever -0.
template <class Real>
struct LeaveOut {
    static APSCOPE_INLINE void run(const Real* x, const Real* y, std::size_t count, Real* kept_x,
                                   Real* kept_y, LeftOut* found) {
        using Bits = BitsOf<Real>;
        constexpr Bits infinity = infinity_bits<Real>;
        Bits pairs = 0, nan = 0, infinite = 0, nonzero = 0;  // 32 bits are enough for a block
        for (std::size_t i = 0; i < count; ++i) {
            const Bits a = bits_cast<Bits>(x[i]), b = bits_cast<Bits>(y[i]),
                       size = a & ~sign_bit<Real>;
            const Bits is_left_out =
                static_cast<Bits>((size >= infinity) | ((b & ~sign_bit<Real>) >= infinity));
            kept_x[i] = bits_cast<Real>(a & (is_left_out - 1));
            kept_y[i] = bits_cast<Real>(b & (is_left_out - 1));
            pairs += is_left_out;
            nan += size > infinity;
            infinite += size == infinity;
            nonzero +=
                is_left_out & static_cast<Bits>(size != 0) & static_cast<Bits>(size < infinity);
        }
        *found = {pairs, nan, infinite, nonzero};
    }
};

// The sums that depend only on x.
struct AddReference {
    static APSCOPE_INLINE void run(const double* x, std::size_t count, double* squared,
                                   double* absolute, std::uint64_t* zeros) {
        *squared = block_sum(count, [&](std::size_t i) { return x[i] * x[i]; });
        *absolute = block_sum(count, [&](std::size_t i) { return detail::absolute(x[i]); });
        std::uint64_t zero = 0;
        for (std::size_t i = 0; i < count; ++i) zero += x[i] == 0.0;
        *zeros = zero;
    }
};

}  // namespace apscope::detail
