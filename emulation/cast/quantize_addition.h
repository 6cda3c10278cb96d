// Ties to even by one hardware addition and one subtraction:
//
//      c = 2^(max(exponent(x), emin) + f - m)      f = 23 in fp32, 52 in fp64
//      r = (|x| + c) - c
//
// The sum has |x|'s quantum as its last place, subnormals of the target included, so that the hardware rounds
// to it, and subtracting c is exact. Overflow is decided on the input: the first magnitude that rounds past the
// largest. On the host and on a GPU.
#pragma once

#include <cstddef>

#include "core/rounding.h"
#include "emulation/cast/quantize_buffers.h"

namespace apscope::detail {

template <class Real>
struct AdditionCast {
    using Bits = BitsOf<Real>;
    Bits least_c, most_c, lift;  // bits of c: its exponent field is clamped, then lifted
    Bits overflow_from;          // the first magnitude that rounds past the largest
    Bits overflow, infinite, negative_zero;
};

template <class Real>
APSCOPE_INLINE AdditionCast<Real> make_addition_cast(const Cast<Real>& cast) {
    using Bits = BitsOf<Real>;
    constexpr int fraction_bits = Layout<Real>::fraction_bits, bias = Layout<Real>::bias;
    constexpr Bits infinity = infinity_bits<Real>, sign = sign_bit<Real>;
    const Bits lift = static_cast<Bits>(fraction_bits - cast.mantissa_bits) << fraction_bits;
    const Real largest = bits_cast<Real>(cast.largest);
    const Real half_quantum = bits_cast<Real>((cast.largest & infinity) - (static_cast<Bits>(cast.mantissa_bits + 1) << fraction_bits));
    // The tie between the largest and the next number goes up where the largest is odd.
    const bool largest_odd = (cast.largest >> (fraction_bits - cast.mantissa_bits) & 1) != 0 || cast.mantissa_bits == 0;
    return {static_cast<Bits>(cast.emin + bias) << fraction_bits,
            infinity - (Bits{1} << fraction_bits) - lift,  // c's exponent stays in range for inputs that overflow anyway
            lift,
            static_cast<Bits>(bits_cast<Bits>(largest + half_quantum) + (largest_odd ? 0 : 1)),
            cast.overflow_positive & ~sign,
            cast.infinite_positive & ~sign,
            cast.negative_zero};
}

// The magnitude rounded, where it does not overflow; where it may (Full), something then, and of NaN.
template <bool Full, class Real>
APSCOPE_HD BitsOf<Real> rounded_by_addition(BitsOf<Real> magnitude, const AdditionCast<Real>& cast) {
    BitsOf<Real> c_bits = magnitude & infinity_bits<Real>;
    c_bits = c_bits > cast.least_c ? c_bits : cast.least_c;
    if constexpr (Full) c_bits = c_bits < cast.most_c ? c_bits : cast.most_c;
    c_bits += cast.lift;
    const Real c = bits_cast<Real>(c_bits);
    return bits_cast<BitsOf<Real>>((bits_cast<Real>(magnitude) + c) - c);
}

template <bool Full, class Real>
APSCOPE_HD Real round_by_addition(Real x, const AdditionCast<Real>& cast) {
    using Bits = BitsOf<Real>;
    constexpr Bits infinity = infinity_bits<Real>, sign = sign_bit<Real>;
    const Bits bits = bits_cast<Bits>(x), magnitude = bits & ~sign;
    Bits result = rounded_by_addition<Full, Real>(magnitude, cast);
    if constexpr (Full) {
        result = magnitude >= cast.overflow_from ? cast.overflow : result;
        result = magnitude == infinity ? cast.infinite : result;
        result = magnitude > infinity ? nan_bits<Real> : result;
        // NaN and a single zero carry no sign.
        const bool unsigned_result = result > infinity || (result == 0 && cast.negative_zero == 0);
        return bits_cast<Real>(result | (unsigned_result ? 0 : bits & sign));
    }
    return bits_cast<Real>(result | (bits & (result == 0 ? cast.negative_zero : sign)));
}

template <class Real>
struct QuantizeByAddition {
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count, const Cast<Real>* given) {
        const AdditionCast<Real> cast = make_addition_cast(*given);
        by_overflow(in, count, cast.overflow_from - 1, [&]<bool Full>(std::size_t begin, std::size_t n) __attribute__((always_inline)) {
            for (std::size_t i = begin; i < begin + n; ++i) out[i] = round_by_addition<Full>(in[i], cast);
        });
    }
};

// Ties to even without further wishes, to signed formats with regular spacing whose exponents leave room for
// c, and whose quantum is a normal number of Real.
template <class Real>
bool addition_serves(const FloatFormat& f, const Projection& p, const Cast<Real>& cast) {
    constexpr int fraction_bits = Layout<Real>::fraction_bits, bias = Layout<Real>::bias;
    return p.rounding == RoundingMode::ties_to_even && p.underflow == Underflow::gradual && !p.keep_payload && f.is_signed &&
           cast.gap_high == 0 && f.zero != Zero::none && !cast.even_code_ties && f.mantissa_bits < fraction_bits &&
           cast.emin - f.mantissa_bits >= 2 - bias && f.emax() + 1 + fraction_bits - f.mantissa_bits <= bias - 1 && f.emax() >= cast.emin;
}

}  // namespace apscope::detail
