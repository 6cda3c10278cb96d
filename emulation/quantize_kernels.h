// The loops of quantize(), one struct each with a static run(), compiled per instruction set by
// simd::run().
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/philox.h"
#include "core/rounding.h"
#include "emulation/narrow_draws.h"
#include "emulation/simd.h"

namespace apscope {

// The rule itself, deterministic modes.
template <RoundingMode M, class Real, bool Plain>
struct QuantizeByRule {
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count, const Cast<Real>* given) {
        const Cast<Real> cast = known<Plain>(*given);
        for (std::size_t i = 0; i < count; ++i) out[i] = round_to_format<M, Real>(in[i], cast, std::uint64_t{0});
    }
};

// The rule with random integers from a stream, whose blocks serve several elements each.
template <RoundingMode M, class Real, bool Plain>
struct QuantizeStochastic {
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count, const Cast<Real>* given,
                                   const RandomStream* given_stream, std::uint64_t first) {
        const Cast<Real> cast = known<Plain>(*given);
        const RandomStream stream = *given_stream;
        const int slots = RandomStream::slots(stream.random_bits);
        std::size_t i = 0;
        while (i < count) {
            const std::uint64_t element = first + i;
            const PhiloxBlock block = stream.block(element / slots);
            for (int slot = static_cast<int>(element % slots); slot < slots && i < count; ++slot, ++i) {
                out[i] = round_to_format<M, Real>(in[i], cast, stream.slot(block, slot));
            }
        }
    }
};

// The same for fp32 numbers and at most 32 random bits: words first, a buffer at a time, then the rule,
// both as vector code. Starts at a whole block.
template <RoundingMode M>
struct QuantizeNarrowDraws {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count, const Cast<float>* given,
                                   const RandomStream* stream, std::uint64_t first) {
        const Cast<float> cast = known<true>(*given);
        NarrowDraws draws(*stream);
        for (std::size_t begin = 0; begin < count; begin += NarrowDraws::size) {
            const std::size_t n = count - begin < NarrowDraws::size ? count - begin : NarrowDraws::size;
            const std::uint32_t* drawn = draws.at(first + begin, n);
            for (std::size_t i = 0; i < n; ++i) out[begin + i] = round_to_format<M, float>(in[begin + i], cast, Word32{drawn[i]});
        }
    }
};

// The rule with random integers of the caller's, in the low bits of a word each.
template <RoundingMode M, class Real>
struct QuantizeGivenWords {
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count, const Cast<Real>* given, const std::uint64_t* words) {
        const Cast<Real> cast = *given;
        const int left = 64 - cast.random_bits;
        for (std::size_t i = 0; i < count; ++i) out[i] = round_to_format<M, Real>(in[i], cast, words[i] << left);
    }
};

// Ties to even by addition: with c = 2^(max(exponent(x), emin) + f - m), f = 23 in fp32 and 52 in fp64, the
// hardware rounds |x| + c to a multiple of the quantum, subnormals of the target included, and subtracting c
// is exact. Overflow is decided on the input: the first magnitude that rounds past the largest.
template <class Real>
struct QuantizeByAddition {
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count, const Cast<Real>* given) {
        using Bits = BitsOf<Real>;
        constexpr int fraction_bits = Layout<Real>::fraction_bits, bias = Layout<Real>::bias;
        constexpr Bits infinity = infinity_bits<Real>, sign = sign_bit<Real>;
        const Cast<Real> cast = *given;
        const Bits least_c = static_cast<Bits>(cast.emin + bias) << fraction_bits;
        const Bits lift = static_cast<Bits>(fraction_bits - cast.mantissa_bits) << fraction_bits;
        // c's exponent stays in range for inputs that overflow anyway.
        const Bits most_c = infinity - (Bits{1} << fraction_bits) - lift;
        // Largest + half a quantum rounds past the end (the tie too when the largest is odd).
        const Real largest = bits_cast<Real>(cast.largest);
        const Real half_quantum = bits_cast<Real>((cast.largest & infinity) - (static_cast<Bits>(cast.mantissa_bits + 1) << fraction_bits));
        const bool largest_odd = (cast.largest >> (fraction_bits - cast.mantissa_bits) & 1) != 0 || cast.mantissa_bits == 0;
        const Bits overflow_from = bits_cast<Bits>(largest + half_quantum) + (largest_odd ? 0 : 1);
        const Bits overflow = cast.overflow_positive & ~sign, infinite = cast.infinite_positive & ~sign;
        for (std::size_t i = 0; i < count; ++i) {
            const Bits bits = bits_cast<Bits>(in[i]);
            const Bits magnitude = bits & ~sign;
            Bits c_bits = magnitude & infinity;
            c_bits = c_bits > least_c ? c_bits : least_c;
            c_bits = (c_bits < most_c ? c_bits : most_c) + lift;
            const Real c = bits_cast<Real>(c_bits);
            Bits result = bits_cast<Bits>((bits_cast<Real>(magnitude) + c) - c);
            result = magnitude >= overflow_from ? overflow : result;
            result = magnitude == infinity ? infinite : result;
            result = (magnitude > infinity ? nan_bits<Real> : result);
            // NaN and a single zero carry no sign.
            const bool unsigned_result = result > infinity || (result == 0 && cast.negative_zero == 0);
            out[i] = bits_cast<Real>(result | (unsigned_result ? 0 : bits & sign));
        }
    }
};

// Ties to even without further wishes, to signed formats with regular spacing whose exponents leave room for
// c, and whose quantum is a normal number of Real.
template <class Real>
bool magic_addition_serves(const FloatFormat& f, const Projection& p, const Cast<Real>& cast) {
    constexpr int fraction_bits = Layout<Real>::fraction_bits, bias = Layout<Real>::bias;
    return p.rounding == RoundingMode::ties_to_even && p.underflow == Underflow::gradual && !p.keep_payload && f.is_signed &&
           cast.gap_high == 0 && f.zero != Zero::none && !cast.even_code_ties && f.mantissa_bits < fraction_bits &&
           cast.emin - f.mantissa_bits >= 2 - bias && f.emax() + 1 + fraction_bits - f.mantissa_bits <= bias - 1 && f.emax() >= cast.emin;
}

}  // namespace apscope
