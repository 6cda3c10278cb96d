// The loops of ErrorStatistics over pairs of numbers, for blocks in which all are finite, and what makes others such
// blocks, compiled per instruction set by simd::run(). Sums have the shape of core/fixed_shape_sum.h; counts and a maximum need none.
#pragma once

#include <cstddef>
#include <cstdint>

#include "analysis/statistics/error_statistics.h"
#include "core/fixed_shape_sum.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// What a block of pairs adds. The sums are finite where the numbers are, as far as fp32 numbers and sums of them
// go; an infinity or NaN makes a sum of squares one.
struct PairsFound {
    double sums[7];  // the first of ErrorStatistics::Sum
    std::uint64_t zero, lost;  // x = 0; y = 0 and x is not
    double max_ulp;
};

// a b + c in one instruction, where it is told to: where a b is exact, that changes no bit.
template <bool Fused>
APSCOPE_INLINE double add_exact_product(double a, double b, double c) {
    if constexpr (Fused) return __builtin_fma(a, b, c);
    else return a * b + c;
}

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
// numbers are widened first: their products are exact in fp64, and Fused may be set. Known: what follows from x
// alone is left out.
template <Ulps U, bool Known, bool Fused, class Real>
struct AddFinitePairs {
    static_assert(!Fused || sizeof(Real) == sizeof(float));
    static APSCOPE_INLINE void run(const Real* x, const Real* y, std::size_t count, const FloatScale* given, PairsFound* found) {
        using S = ErrorStatistics;
        // Locals, which stay in registers.
        double error[sum_lanes] = {}, squared_error[sum_lanes] = {}, squared_reference[sum_lanes] = {}, absolute_reference[sum_lanes] = {},
               signed_error[sum_lanes] = {}, product[sum_lanes] = {}, squared_result[sum_lanes] = {}, ulp[sum_lanes] = {};
        using Count = BitsOf<Real>;
        Count zero[sum_lanes] = {}, lost[sum_lanes] = {};
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
            const bool is_zero = x[i] == 0, is_lost = (x[i] != 0) & (y[i] == 0);
            error[lane] += e;
            squared_error[lane] += e * e;
            if constexpr (!Known) {
                squared_reference[lane] = add_exact_product<Fused>(a, a, squared_reference[lane]);
                absolute_reference[lane] += magnitude;
                zero[lane] += is_zero;
            }
            signed_error[lane] += is_zero ? 0.0 : turned;
            product[lane] = add_exact_product<Fused>(a, b, product[lane]);
            squared_result[lane] = add_exact_product<Fused>(b, b, squared_result[lane]);
            lost[lane] += is_lost;
            const double absolute = bits_cast<double>(bits_cast<std::uint64_t>(e) & ~sign_bit<double>);
            if constexpr (U != Ulps::none) {
                const double at = U == Ulps::scaled ? magnitude * units * scale : magnitude;
                const auto exponent = static_cast<std::int64_t>(bits_cast<std::uint64_t>(at) & infinity_bits<double>);
                const double per_ulp = bits_cast<double>(top - (exponent > least ? exponent : least));
                const double in_ulps = U == Ulps::scaled ? absolute * units * scale * per_ulp : absolute * per_ulp;
                ulp[lane] = in_ulps > ulp[lane] ? in_ulps : ulp[lane];
            }
        };
        std::size_t i = 0;
        for (; i + sum_lanes <= count; i += sum_lanes) {
            for (std::size_t lane = 0; lane < sum_lanes; ++lane) add(i + lane, lane);
        }
        for (std::size_t lane = 0; i + lane < count; ++lane) add(i + lane, lane);
        PairsFound f{};
        const auto join = [&](S::Sum sum, double* lanes) { f.sums[sum] = join_lanes(lanes); };
        join(S::error, error);
        join(S::squared_error, squared_error);
        join(S::squared_reference, squared_reference);
        join(S::absolute_reference, absolute_reference);
        join(S::signed_error, signed_error);
        join(S::product, product);
        join(S::squared_result, squared_result);
        for (std::size_t lane = 0; lane < sum_lanes; ++lane) {
            f.zero += zero[lane];
            f.lost += lost[lane];
            f.max_ulp = ulp[lane] > f.max_ulp ? ulp[lane] : f.max_ulp;
        }
        *found = f;
    }
};

// A block with zeros in the place of pairs that are not both finite, and what those count as. A pair of zeros changes
// no sum: lanes start at +0 and x + (-x) is +0, so none is ever -0.
struct LeftOut {
    std::uint64_t pairs, nan, infinite;  // of which x is NaN, infinite
    std::uint64_t nonzero;               // x is finite and not zero
};
template <class Real>
struct LeaveOut {
    static APSCOPE_INLINE void run(const Real* x, const Real* y, std::size_t count, Real* kept_x, Real* kept_y, LeftOut* found) {
        using Bits = BitsOf<Real>;
        constexpr Bits infinity = infinity_bits<Real>;
        Bits pairs = 0, nan = 0, infinite = 0, nonzero = 0;  // a block is small
        for (std::size_t i = 0; i < count; ++i) {
            const Bits a = bits_cast<Bits>(x[i]), b = bits_cast<Bits>(y[i]), size = a & ~sign_bit<Real>;
            const Bits is_left_out = static_cast<Bits>((size >= infinity) | ((b & ~sign_bit<Real>) >= infinity));
            kept_x[i] = bits_cast<Real>(a & (is_left_out - 1));
            kept_y[i] = bits_cast<Real>(b & (is_left_out - 1));
            pairs += is_left_out;
            nan += size > infinity;
            infinite += size == infinity;
            nonzero += is_left_out & static_cast<Bits>(size != 0) & static_cast<Bits>(size < infinity);
        }
        *found = {pairs, nan, infinite, nonzero};
    }
};

// What follows from x alone.
struct AddReference {
    static APSCOPE_INLINE void run(const double* x, std::size_t count, double* squared, double* absolute, std::uint64_t* zeros) {
        *squared = block_sum(count, [&](std::size_t i) { return x[i] * x[i]; });
        *absolute = block_sum(count, [&](std::size_t i) { return bits_cast<double>(bits_cast<std::uint64_t>(x[i]) & ~sign_bit<double>); });
        std::uint64_t zero = 0;
        for (std::size_t i = 0; i < count; ++i) zero += x[i] == 0.0;
        *zeros = zero;
    }
};

}  // namespace apscope::detail
