// The loops of ErrorStatistics over pairs of numbers that are all finite, compiled per instruction set by
// simd::run(). Sums have the shape of core/fixed_shape_sum.h; counts and a maximum need none.
#pragma once

#include <cstddef>
#include <cstdint>

#include "analysis/error_statistics.h"
#include "core/fixed_shape_sum.h"
#include "emulation/simd.h"

namespace apscope {

// Are all of them finite? One bit of the sum says so: exponent + 1 carries out of the field of an infinity or a NaN.
template <class Real>
struct AllFinite {
    static APSCOPE_INLINE void run(const Real* x, std::size_t count, bool* answer) {
        using Bits = BitsOf<Real>;
        Bits seen = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const Bits magnitude = bits_cast<Bits>(x[i]) & ~sign_bit<Real>;
            seen |= magnitude + (Bits{1} << Layout<Real>::fraction_bits);
        }
        *answer = (seen & sign_bit<Real>) == 0;
    }
};

// What add_block() finds beside the sums.
struct PairCounts {
    std::uint64_t nonzero = 0, underflow = 0;
    double max_ulp = 0.0;
};

// total += the sum of a block's row.
struct SumRow {
    static APSCOPE_INLINE void run(const double* row, std::size_t count, double* total) {
        *total += block_sum(count, [&](std::size_t i) { return row[i]; });
    }
};

// Finite numbers below the smallest normal one, and beyond the largest that ended there.
struct CountLimits {
    static APSCOPE_INLINE void run(const float* x, const float* y, std::size_t count, float smallest_normal, float largest,
                                   std::uint64_t* subnormal, std::uint64_t* saturated) {
        const std::uint32_t least = bits_cast<std::uint32_t>(smallest_normal), most = bits_cast<std::uint32_t>(largest);
        std::uint32_t below = 0, above = 0;  // a block is small
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t a = bits_cast<std::uint32_t>(x[i]) & 0x7FFFFFFF, b = bits_cast<std::uint32_t>(y[i]) & 0x7FFFFFFF;
            below += (a != 0) & (a < least);
            above += (a > most) & (a < 0x7F800000) & (b == most);
        }
        *subnormal += below;
        *saturated += above;
    }
};

// How max_ulp is found: not at all; with U = 1 and S a power of two, which move the exponents only; or by
// the definition, |e| U S 2^-q in this order.
enum class Ulps { none, shifted, scaled };

// Sums, counts and the largest error in units in the last place, q = max(floor(log2 (U S |x|)), emin) - m. fp32
// numbers are widened first.
template <Ulps U, class X, class Y>
struct AddFinitePairs {
    static APSCOPE_INLINE void run(const X* x, const Y* y, std::size_t count, const FloatScale* given, double* totals, PairCounts* counts) {
        using S = ErrorStatistics;
        // Locals, which stay in registers.
        double error[sum_lanes] = {}, squared_error[sum_lanes] = {}, squared_reference[sum_lanes] = {}, absolute_reference[sum_lanes] = {},
               signed_error[sum_lanes] = {}, product[sum_lanes] = {}, squared_result[sum_lanes] = {}, ulp[sum_lanes] = {};
        std::uint64_t zero[sum_lanes] = {}, lost[sum_lanes] = {};
        const double units = given->units, scale = given->scale;
        // 2^-q is formed in place: `top` less the exponent field, at least `least`.
        const std::int64_t moved = U == Ulps::shifted ? (static_cast<std::int64_t>(bits_cast<std::uint64_t>(scale) >> 52) - 1023) << 52 : 0;
        const auto least = static_cast<std::int64_t>(given->cast.emin + 1023) * (std::int64_t{1} << 52) - moved;
        const auto top = static_cast<std::int64_t>(2046 + given->cast.mantissa_bits) * (std::int64_t{1} << 52);
        const auto add = [&](std::size_t i, std::size_t lane) __attribute__((always_inline)) {
            const double a = x[i], b = y[i], e = b - a;
            const std::uint64_t bits = bits_cast<std::uint64_t>(a), sign = bits & sign_bit<double>;
            const double magnitude = bits_cast<double>(bits ^ sign);
            // sign(0) = 0: the sign of x moves to e where x is not zero.
            const double turned = bits_cast<double>(bits_cast<std::uint64_t>(e) ^ sign);
            error[lane] += e;
            squared_error[lane] += e * e;
            squared_reference[lane] += a * a;
            absolute_reference[lane] += magnitude;
            signed_error[lane] += a != 0.0 ? turned : 0.0;
            product[lane] += a * b;
            squared_result[lane] += b * b;
            zero[lane] += a == 0.0;
            lost[lane] += (a != 0.0) & (b == 0.0);
            const double absolute = bits_cast<double>(bits_cast<std::uint64_t>(e) & ~sign_bit<double>);
            if constexpr (U != Ulps::none) {
                const double at = U == Ulps::scaled ? magnitude * units * scale : magnitude;
                const auto exponent = static_cast<std::int64_t>(bits_cast<std::uint64_t>(at) & infinity_bits<double>);
                const double per_ulp = bits_cast<double>(top - (exponent > least ? exponent : least));
                const double found = U == Ulps::scaled ? absolute * units * scale * per_ulp : absolute * per_ulp;
                ulp[lane] = found > ulp[lane] ? found : ulp[lane];
            }
        };
        std::size_t i = 0;
        for (; i + sum_lanes <= count; i += sum_lanes) {
            for (std::size_t lane = 0; lane < sum_lanes; ++lane) add(i + lane, lane);
        }
        for (std::size_t lane = 0; i + lane < count; ++lane) add(i + lane, lane);
        const auto join = [&](S::Sum sum, double* lanes) { totals[sum] += join_lanes(lanes); };
        join(S::error, error);
        join(S::squared_error, squared_error);
        join(S::squared_reference, squared_reference);
        join(S::absolute_reference, absolute_reference);
        join(S::signed_error, signed_error);
        join(S::product, product);
        join(S::squared_result, squared_result);
        counts->nonzero += count;
        for (std::size_t lane = 0; lane < sum_lanes; ++lane) {
            counts->nonzero -= zero[lane];
            counts->underflow += lost[lane];
            counts->max_ulp = ulp[lane] > counts->max_ulp ? ulp[lane] : counts->max_ulp;
        }
    }
};

}  // namespace apscope
