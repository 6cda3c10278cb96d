// How a thread rounds a group of elements, three ways to the same bits:
//
//      AdditionRounding   fp32, ties to even: one addition and one subtraction (emulation/quantize_kernels.h)
//      SplitRounding      fp32, every counted mode: emulation/quantize_split.h, at most 32 random bits
//      RuleRounding       every format, mode and width: the rule itself
//
// Fast roundings look at the mode once a group. With stochastic rounding, elements that share a Philox block are
// in one group, whose first element's number in the stream is a multiple of its size.
#pragma once

#include <cstdint>

#include "core/philox.h"
#include "core/rounding.h"
#include "emulation/quantize_split.h"

namespace apscope {

// The random integers of elements first .. first + Size - 1, left-aligned in 64 bits.
template <int Size>
APSCOPE_HD void draw_group(const RandomStream& stream, std::uint64_t first, std::uint64_t (&words)[Size]) {
    const int shift = stream.random_bits <= 16 ? 3 : stream.random_bits <= 32 ? 2 : 1;
    const std::uint64_t last_slot = (std::uint64_t{1} << shift) - 1;
    PhiloxBlock block{};
    for (int j = 0; j < Size; ++j) {
        const std::uint64_t element = first + j;
        if (j == 0 || (element & last_slot) == 0) block = stream.block(element >> shift);
        words[j] = stream.slot(block, static_cast<int>(element & last_slot));
    }
}

// The rule for one number, of which there is one copy a kernel: in every place of every loop its thirteen modes
// would be a hundred kilobytes of code, and minutes of compiling.
#if defined(__CUDACC__)
#define APSCOPE_HD_CALL inline __host__ __device__ __noinline__
#else
#define APSCOPE_HD_CALL inline
#endif

// Calls f.template operator()<M>(): dispatch() of core/rounding.h, on the device too.
template <class F>
APSCOPE_HD void with_mode(RoundingMode mode, const F& f) {
    switch (mode) {
        case RoundingMode::ties_to_even: return f.template operator()<RoundingMode::ties_to_even>();
        case RoundingMode::ties_to_away: return f.template operator()<RoundingMode::ties_to_away>();
        case RoundingMode::ties_to_zero: return f.template operator()<RoundingMode::ties_to_zero>();
        case RoundingMode::toward_zero: return f.template operator()<RoundingMode::toward_zero>();
        case RoundingMode::toward_positive: return f.template operator()<RoundingMode::toward_positive>();
        case RoundingMode::toward_negative: return f.template operator()<RoundingMode::toward_negative>();
        case RoundingMode::away_from_zero: return f.template operator()<RoundingMode::away_from_zero>();
        case RoundingMode::to_odd: return f.template operator()<RoundingMode::to_odd>();
        case RoundingMode::stochastic: return f.template operator()<RoundingMode::stochastic>();
        case RoundingMode::stochastic_b: return f.template operator()<RoundingMode::stochastic_b>();
        case RoundingMode::stochastic_c: return f.template operator()<RoundingMode::stochastic_c>();
        case RoundingMode::stochastic_equal: return f.template operator()<RoundingMode::stochastic_equal>();
        case RoundingMode::stochastic_exact: return f.template operator()<RoundingMode::stochastic_exact>();
    }
}

// `word` holds the random integer, left-aligned; stochastic_exact asks for its own, of the stream's `element`.
template <class Real>
APSCOPE_HD_CALL Real round_by_mode(Real x, const Cast<Real>& cast, RoundingMode mode, std::uint64_t word, const RandomStream& stream,
                                   std::uint64_t element) {
    Real result{};
    with_mode(mode, [&]<RoundingMode M>() {
        if constexpr (M == RoundingMode::stochastic_exact) {
            result = round_to_format<M, Real>(x, cast, StreamWord{&stream, element});
        } else {
            result = round_to_format<M, Real>(x, cast, word);
        }
    });
    return result;
}

// A cast as the magic addition needs it: what QuantizeByAddition derives before its loop.
struct AdditionCast {
    std::uint32_t least_c, most_c, lift;         // bits of c: its exponent field is clamped, then lifted
    std::uint32_t overflow_from;                 // the first magnitude that rounds past the largest
    std::uint32_t overflow, infinite, negative_zero;
};

inline AdditionCast make_addition_cast(const Cast<float>& cast) {
    constexpr std::uint32_t infinity = infinity_bits<float>, unit = 1u << 23;
    const std::uint32_t lift = static_cast<std::uint32_t>(23 - cast.mantissa_bits) << 23;
    const float largest = bits_cast<float>(cast.largest);
    const float half_quantum = bits_cast<float>((cast.largest & infinity) - (static_cast<std::uint32_t>(cast.mantissa_bits + 1) << 23));
    // The tie between the largest and the next number goes up where the largest is odd.
    const bool largest_odd = (cast.largest >> (23 - cast.mantissa_bits) & 1) != 0 || cast.mantissa_bits == 0;
    return {static_cast<std::uint32_t>(cast.emin + 127) << 23, infinity - unit - lift, lift,
            bits_cast<std::uint32_t>(largest + half_quantum) + (largest_odd ? 0 : 1), cast.overflow_positive & ~sign_bit<float>,
            cast.infinite_positive & ~sign_bit<float>, cast.negative_zero};
}

APSCOPE_HD float round_by_addition(float x, const AdditionCast& cast) {
    constexpr std::uint32_t infinity = infinity_bits<float>, sign = sign_bit<float>;
    const std::uint32_t bits = bits_cast<std::uint32_t>(x), magnitude = bits & ~sign;
    std::uint32_t c_bits = magnitude & infinity;
    c_bits = c_bits > cast.least_c ? c_bits : cast.least_c;
    c_bits = (c_bits < cast.most_c ? c_bits : cast.most_c) + cast.lift;
    const float c = bits_cast<float>(c_bits);
    std::uint32_t result = bits_cast<std::uint32_t>((bits_cast<float>(magnitude) + c) - c);
    result = magnitude >= cast.overflow_from ? cast.overflow : result;
    result = magnitude == infinity ? cast.infinite : result;
    result = magnitude > infinity ? nan_bits<float> : result;
    const bool unsigned_result = result > infinity || (result == 0 && cast.negative_zero == 0);
    return bits_cast<float>(result | (unsigned_result ? 0 : bits & sign));
}

struct AdditionRounding {
    using Number = float;
    AdditionCast cast;

    template <int Size>
    APSCOPE_HD void operator()(float (&values)[Size], std::uint64_t) const {
        for (float& value : values) value = round_by_addition(value, cast);
    }
};

struct SplitRounding {
    using Number = float;
    SplitCast cast;
    RoundingMode mode;
    RandomStream stream;

    template <int Size>
    APSCOPE_HD void operator()(float (&values)[Size], std::uint64_t first) const {
        std::uint64_t words[Size] = {};
        if (is_stochastic(mode)) draw_group(stream, first, words);
        with_mode(mode, [&]<RoundingMode M>() {
            if constexpr (!is_stochastic(M) || M == RoundingMode::stochastic || M == RoundingMode::stochastic_equal) {
                for (int j = 0; j < Size; ++j) {
                    const auto drawn = static_cast<std::uint32_t>(words[j] >> 32);
                    values[j] = cast.first_normal != 0 ? round_split<M, true, false>(values[j], cast, drawn)
                                                       : round_split<M, false, false>(values[j], cast, drawn);
                }
            }
        });
    }
};

template <class Real>
struct RuleRounding {
    using Number = Real;
    Cast<Real> cast;
    RoundingMode mode;
    RandomStream stream;

    template <int Size>
    APSCOPE_HD void operator()(Real (&values)[Size], std::uint64_t first) const {
        std::uint64_t words[Size] = {};
        if (is_stochastic(mode) && mode != RoundingMode::stochastic_exact) draw_group(stream, first, words);
        for (int j = 0; j < Size; ++j) {
            values[j] = round_by_mode<Real>(values[j], cast, mode, words[j], stream, first + static_cast<std::uint64_t>(j));
        }
    }
};

}  // namespace apscope
