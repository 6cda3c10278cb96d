// Rounding to a format's grid by one hardware addition and one subtraction:
//
//      c      = 1.5 * 2^(max(exponent(x), emin) + f - m)      f = 23 in fp32, 52 in fp64
//      lifted = x + c                                         to nearest, ties to even, in quanta
//      r      = lifted - c                                    exact (Sterbenz)
//
// The last place of the sum is the format's quantum, also where the format is subnormal, so the
// hardware rounds to that quantum; c is in the middle of its binade, so x may have either sign; and
// as an integer the sum's bits count quanta, so the other roundings add or subtract one:
//
//      up (down)      lifted + 1 (- 1) where r < x (r > x)
//      to odd         down, then the last bit set where r is not x
//      ties up        r of x with its last bit set, which is above a tie if x is that tie
//      ties down      r of x less its last place, with its last bit set: below a tie likewise
//
// All loops that round in this way use these constants and steps: casts, blocks, arithmetic in
// registers and statistics, on the host and on a GPU.
#pragma once

#include "core/rounding.h"

namespace apscope::detail {

// The constants from which c is computed, as bits of Real. If a block's scale moves the limits of a
// format, the scale's exponent is added to `least`.
template <class Real>
struct GridConstants {
    using Bits = BitsOf<Real>;
    Bits least = 0;  // 2^emin
    Bits lift = 0;   // the bits of c minus the bits of 2^max(exponent(x), emin)
};

// The fraction field of 1.5.
template <class Real>
inline constexpr BitsOf<Real> grid_half = BitsOf<Real>{1} << (Layout<Real>::fraction_bits - 1);

// Differences of bit patterns: c - c_above_quantum is the quantum, c_times_inverse - c its inverse.
template <class Real>
inline constexpr BitsOf<Real> c_above_quantum =
    (BitsOf<Real>{Layout<Real>::fraction_bits} << Layout<Real>::fraction_bits) + grid_half<Real>;
template <class Real>
inline constexpr BitsOf<Real> c_times_inverse =
    (static_cast<BitsOf<Real>>(2 * Layout<Real>::bias + Layout<Real>::fraction_bits)
     << Layout<Real>::fraction_bits) +
    grid_half<Real>;

// Host only. `emin` is the exponent below which the quantum no longer shrinks (Cast::emin).
template <class Real>
constexpr GridConstants<Real> make_grid(int emin, int mantissa_bits) {
    using L = Layout<Real>;
    return {static_cast<BitsOf<Real>>(emin + L::bias) << L::fraction_bits,
            (static_cast<BitsOf<Real>>(L::fraction_bits - mantissa_bits) << L::fraction_bits) +
                grid_half<Real>};
}

// Returns whether this addition rounds to the format f. The format must be signed, have regular
// spacing down to a zero, at least two significand bits fewer than Real, a c that does not
// overflow, and quanta that are normal numbers of Real. If the mode uses a parity, the format must
// decide ties by the parity of the significand; with to_odd it needs a precision of 2 or more.
template <class Real>
bool grid_serves(const FloatFormat& f, const Cast<Real>& cast) {
    constexpr int fraction_bits = Layout<Real>::fraction_bits, bias = Layout<Real>::bias;
    return f.is_signed && f.zero != Zero::none && cast.gap_high == 0 &&
           !(cast.even_code_ties && asks_parity(cast.rounding)) &&
           !(f.mantissa_bits == 0 && cast.rounding == RoundingMode::to_odd) &&
           f.mantissa_bits <= fraction_bits - 2 && cast.emin - f.mantissa_bits >= 2 - bias &&
           f.emax() + 1 + fraction_bits - f.mantissa_bits <= bias - 1 && f.emax() >= cast.emin;
}

// The bits of c; `field` is x's exponent field, in place.
template <class Real>
APSCOPE_HD BitsOf<Real> grid_c(BitsOf<Real> field, const GridConstants<Real>& g) {
    return (field > g.least ? field : g.least) + g.lift;
}

// The smallest magnitude that ties_to_even rounds beyond the largest value: largest + half a
// quantum if the significand of `largest` is odd, else the next number of Real above that sum.
template <class Real>
APSCOPE_HD BitsOf<Real> first_overflow(const Cast<Real>& cast) {
    using Bits = BitsOf<Real>;
    constexpr int fraction_bits = Layout<Real>::fraction_bits;
    const Real half_quantum = bits_cast<Real>((cast.largest & infinity_bits<Real>)-(
        static_cast<Bits>(cast.mantissa_bits + 1) << fraction_bits));
    const bool largest_odd =
        (cast.largest >> (fraction_bits - cast.mantissa_bits) & 1) != 0 || cast.mantissa_bits == 0;
    return static_cast<Bits>(bits_cast<Bits>(bits_cast<Real>(cast.largest) + half_quantum) +
                             (largest_odd ? 0 : 1));
}

// `even` is x rounded to nearest, ties to even; `lifted` is the sum x + c from which it is
// computed.
template <class Real>
struct OnGrid {
    Real lifted, even;
};
template <class Real>
APSCOPE_HD OnGrid<Real> to_grid(Real x, Real c) {
    const Real lifted = x + c;
    return {lifted, lifted - c};
}

// Rounds x in a deterministic mode, without an upper limit. The sign of a zero result is
// unspecified. The code uses results of comparisons as numbers, because vectorisers convert such
// numbers to masks.
template <RoundingMode M, class Real>
APSCOPE_HD Real round_to_grid(Real x, Real c) {
    using Bits = BitsOf<Real>;
    static_assert(!is_stochastic(M));
    if constexpr (M == RoundingMode::ties_to_even) {
        return to_grid(x, c).even;
    } else if constexpr (is_nearest(M)) {
        static_assert(!asks_parity(M));
        const Bits bits = bits_cast<Bits>(x), above_zero = x != 0 ? 1 : 0,
                   up = tie_goes_up<M, Bits>(1, 0, bits >> (sizeof(Bits) * 8 - 1));
        return to_grid(bits_cast<Real>((bits - (above_zero & ~up)) | 1), c).even;
    } else if constexpr (M == RoundingMode::toward_zero || M == RoundingMode::away_from_zero) {
        constexpr bool up = M == RoundingMode::away_from_zero;
        const Bits sign = bits_cast<Bits>(x) & sign_bit<Real>;
        const Real size = bits_cast<Real>(bits_cast<Bits>(x) ^ sign);
        const OnGrid<Real> g = to_grid(size, c);
        const Bits count = bits_cast<Bits>(g.lifted),
                   step = (up ? g.even < size : g.even > size) ? 1 : 0;
        return bits_cast<Real>(
            bits_cast<Bits>(bits_cast<Real>(up ? count + step : count - step) - c) | sign);
    } else {
        const OnGrid<Real> g = to_grid(x, c);
        const Bits count = bits_cast<Bits>(g.lifted);
        if constexpr (M == RoundingMode::toward_positive) {
            return bits_cast<Real>(count + (g.even < x ? 1 : 0)) - c;
        } else {
            const Bits down = count - (g.even > x ? 1 : 0);
            if constexpr (M == RoundingMode::toward_negative) return bits_cast<Real>(down) - c;
            return bits_cast<Real>(down | (g.even != x ? 1 : 0)) - c;  // to_odd
        }
    }
}

// Returns the bits of `rounded` with the sign of x; `bits` are the bits of x. In formats without
// -0, zero_sign is 0, and a zero becomes +0; in others, zero_sign is the sign bit.
template <RoundingMode M, class Real>
APSCOPE_HD BitsOf<Real> with_zero_sign(Real rounded, BitsOf<Real> bits, BitsOf<Real> zero_sign) {
    if constexpr (M == RoundingMode::toward_zero || M == RoundingMode::away_from_zero) {
        // `rounded` has its sign already. Adding +0 (zero_sign = 0) turns -0 into +0; adding -0
        // changes nothing.
        return bits_cast<BitsOf<Real>>(rounded + bits_cast<Real>(zero_sign));
    } else {
        return bits_cast<BitsOf<Real>>(rounded) | (bits & zero_sign);
    }
}

}  // namespace apscope::detail
