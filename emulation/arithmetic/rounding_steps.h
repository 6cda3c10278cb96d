// The rounding of one computed number as a few operations on registers, without shifts by counts
// that differ from lane to lane. Sums and matrix products round in this way after every operation.
// The results have the same bits as those of round_to_format() (core/rounding.h), with two
// exceptions, on which no later step depends and which canonicalize_nan_and_zero() corrects at the
// end: the sign and payload of a NaN, and the sign of a zero in formats without -0.
//
// Numbers are rounded to nearest by the addition of core/grid.h; the other deterministic modes
// correct the result by one quantum, depending on the difference, which is exact.
#pragma once

#include <optional>

#include "core/grid.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

enum class Step {
    none,       // no rounding needed: exact, or fp32 by the hardware
    addition,   // ties to even by the addition of c
    bits,       // ties to even on the bits of fp32, for formats with fp32's emin, which c does not
                // support
    threshold,  // up if more than a fraction of the quantum is discarded (up_positive, up_negative)
    odd,        // an inexact number to the odd neighbour
};

template <class Real>
struct StepCast {
    using Bits = BitsOf<Real>;
    Step step = Step::none;
    GridConstants<Real> grid;  // for the steps addition, threshold and odd
    Real overflow_from = 0;    // first magnitude that rounds beyond the largest value
    Bits largest = 0;          // largest finite magnitude
    // Magnitudes of the results of a finite overflow and of an infinity, per sign.
    Bits overflow_positive = 0, overflow_negative = 0, infinite_positive = 0, infinite_negative = 0;
    int shift = 0;  // for the step bits: the number of discarded bits
    Bits rest = 0;  // for the step bits: the mask of the discarded bits
    // For the step threshold, per sign: rounds up if more than this fraction of a quantum (as bits
    // of Real) is discarded.
    Bits up_positive = 0, up_negative = 0;
    Bits down_sign = 0;  // the sign bit for toward_negative, in which x - x is -0
    Bits zero_sign = 0;  // the sign bit, if the format has a -0
};

// Rounds x; S must be s.step.
template <Step S, class Real>
APSCOPE_HD Real round_step(Real x, const StepCast<Real>& s) {
    using Bits = BitsOf<Real>;
    constexpr Bits infinity = infinity_bits<Real>;
    if constexpr (S == Step::none) return x;
    const Bits bits = bits_cast<Bits>(x), magnitude = bits & ~sign_bit<Real>,
               sign = bits & sign_bit<Real>;
    if constexpr (S == Step::bits) {
        const Bits half = (s.rest >> 1) + 1;
        Bits rounded = (magnitude + (half - 1) + (magnitude >> s.shift & 1)) & ~s.rest;
        rounded = rounded > s.largest ? s.overflow_positive : rounded;
        rounded = magnitude > infinity ? magnitude : rounded;
        return bits_cast<Real>(rounded | sign);
    }
    const Real value = bits_cast<Real>(magnitude);
    // c is finite even if x is infinite or NaN.
    const Bits c_bits = grid_c(magnitude & infinity, s.grid);
    const OnGrid<Real> g = to_grid(value, bits_cast<Real>(c_bits));
    const Real even = g.even;
    if constexpr (S == Step::addition) {
        // The comparison is false for NaN.
        const Bits rounded = value >= s.overflow_from ? s.overflow_positive : bits_cast<Bits>(even);
        return bits_cast<Real>(rounded | sign);
    } else {
        const Bits quantum = c_bits - c_above_quantum<Real>, none = 0;
        const Bits negative = Bits{0} - (sign >> (sizeof(Bits) * 8 - 1));
        const auto by_sign = [negative](Bits positive_one, Bits negative_one) {
            return positive_one ^ ((positive_one ^ negative_one) & negative);
        };
        Real rounded;
        if constexpr (S == Step::threshold) {
            const Bits excess = value < even ? quantum : none;
            const Real below = even - bits_cast<Real>(excess);
            const Real limit =
                bits_cast<Real>(by_sign(s.up_positive, s.up_negative)) * bits_cast<Real>(quantum);
            const Bits more = value - below > limit ? quantum : none;
            rounded = below + bits_cast<Real>(more);
        } else {
            const Bits step = quantum & ((bits_cast<Bits>(g.lifted) & 1) - 1);
            const Bits up = value > even ? step : none, down = value < even ? step : none;
            rounded = (even + bits_cast<Real>(up)) - bits_cast<Real>(down);
        }
        const Bits overflow = by_sign(s.overflow_positive, s.overflow_negative),
                   infinite = by_sign(s.infinite_positive, s.infinite_negative);
        Bits result = rounded > bits_cast<Real>(s.largest) ? overflow : bits_cast<Bits>(rounded);
        result = value == bits_cast<Real>(infinity) ? infinite : result;
        return bits_cast<Real>(result | sign);
    }
}

// Changes a result that was rounded to nearest to the exact result rounded to odd: if `error` is
// not zero, the exact result truncated towards zero, with its last bit set. `like` must have a sign
// that differs from that of `error` if and only if the exact result is nearer to zero than
// `result`. An infinite result, whose error is NaN, is returned unchanged.
template <class Real>
APSCOPE_HD Real moved_to_odd(Real result, Real error, Real like) {
    using Bits = BitsOf<Real>;
    const Bits bits = bits_cast<Bits>(result), error_bits = bits_cast<Bits>(error);
    const Bits nearer = (bits_cast<Bits>(like) ^ error_bits) >> (sizeof(Bits) * 8 - 1);
    const Bits odd = (bits - nearer) | 1;
    return bits_cast<Real>(bits_cast<Real>(error_bits & ~sign_bit<Real>) > 0 ? odd : bits);
}

// The sum a + b for round_step<S>: the hardware's sum or, if Odd, the sum rounded to odd in Real's
// precision.
template <bool Odd, Step S, class Real>
APSCOPE_HD Real add_for_step(Real a, Real b, const StepCast<Real>& s) {
    using Bits = BitsOf<Real>;
    Real sum = a + b;
    if constexpr (Odd) {
        const Real b_seen = sum - a;
        sum = moved_to_odd(sum, (a - (sum - b_seen)) + (b - b_seen), sum);
    }
    if constexpr (S == Step::threshold) {
        const Bits sign = (bits_cast<Bits>(a) | bits_cast<Bits>(b)) & s.down_sign;
        sum = bits_cast<Real>(bits_cast<Bits>(sum) | (sum == 0 ? sign : Bits{0}));
    }
    return sum;
}

// Corrects the bits that steps and sums leave unspecified: a NaN becomes the canonical NaN, and a
// zero loses its sign in formats without -0 (zero_sign = 0).
template <class Real>
APSCOPE_HD Real canonicalize_nan_and_zero(Real x, BitsOf<Real> zero_sign) {
    using Bits = BitsOf<Real>;
    const Bits bits = bits_cast<Bits>(x), magnitude = bits & ~sign_bit<Real>;
    Bits result = magnitude == 0 ? bits & zero_sign : bits;
    result = magnitude > infinity_bits<Real> ? nan_bits<Real> : result;
    return bits_cast<Real>(result);
}

// The step that rounds numbers of type Real to the format as the projection requires; nothing if no
// step does. In fp32 there are steps only for ties to even. Host only; the projection must have
// been validated.
template <class Real>
std::optional<StepCast<Real>> make_step(const FloatFormat& format, const Projection& projection);
// Calls f.template operator()<S>() with a step of fp32 numbers as the compile-time S. Host only.
template <class F>
void with_fp32_step(Step step, const F& f) {
    switch (step) {
        case Step::addition: return f.template operator()<Step::addition>();
        case Step::bits: return f.template operator()<Step::bits>();
        default: return f.template operator()<Step::none>();
    }
}

}  // namespace apscope::detail
