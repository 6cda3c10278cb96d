// The loops of the block casts, one struct each with a static run(), compiled per instruction set
// by simd::run(). They round elements by the addition of core/grid.h without scaling them: instead,
// the limits of the element format are multiplied by the block's scale 2^k, which only adds k to
// exponent fields. (The scale rule `ratio` multiplies, by definition, and rounds with k = 0.)
// block_rule.h rounds the blocks that the loops do not support.
#pragma once

#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/grid.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// Loops process elements that share one scale in steps of this number of elements.
inline constexpr std::size_t block_step = 16;

// The limits of a format for the scale 1. Functions multiply these limits by 2^k by means of the
// parameter `shift`, which is k in the position of the exponent field.
template <class Real>
struct MovableFormat {
    using Bits = BitsOf<Real>;
    GridConstants<Real> grid;
    Bits largest;      // largest finite magnitude
    Bits code_offset;  // subtracted from shifted bits to get the code of a normal number
    int code_shift;    // f - m, the number of discarded bits
};

// An element format and a projection, prepared for the loops over elements.
template <class Real>
struct BlockCast {
    using Bits = BitsOf<Real>;
    MovableFormat<Real> element;
    Bits over_positive, over_negative;  // results of overflows
    // All ones if over_positive (over_negative) is finite and thus multiplied by the scale, else 0.
    Bits moves_positive, moves_negative;
    Bits negative_zero;  // the sign bit if the element format has a -0, else 0
    // The constants for the code of a negative element, from the code of its magnitude: zero_code
    // if this code is 0, else ((code ^ flip) + add) & mask.
    Bits flip, add, mask, zero_code;
    Bits over_code_positive, over_code_negative;  // codes of the results of overflows
    // For the scale rule `ratio`: `bound` is the largest magnitude of elements.
    Real bound, tensor_scale;
};

// Scales, one per block or per element. Rules that give powers of two use `shift`, which is k in
// the position of the exponent field (see MovableFormat). The rule `ratio` uses `multiply`, the
// factor of an element before its rounding, and `value`, the factor of the rounded element.
template <class Real>
struct BlockScales {
    const BitsOf<Real>* shift;
    const Real* multiply;
    const Real* value;
};

// Rounds a magnitude to a multiple of the quantum, without an upper limit. `drawn` is the random
// integer, left-aligned in 32 bits. Few means that it has at most 24 bits.
template <RoundingMode M, bool Few, class Real>
APSCOPE_HD BitsOf<Real> round_movable(BitsOf<Real> magnitude, bool negative,
                                      const MovableFormat<Real>& f, BitsOf<Real> shift,
                                      std::uint32_t drawn) {
    using Bits = BitsOf<Real>;
    const GridConstants<Real> moved{f.grid.least + shift, f.grid.lift};
    const Bits c_bits = grid_c(magnitude & infinity_bits<Real>, moved);
    const Real c = bits_cast<Real>(c_bits), a = bits_cast<Real>(magnitude);
    if constexpr (asks_sign(M)) {
        const Bits sign = negative ? sign_bit<Real> : 0;
        return bits_cast<Bits>(round_to_grid<M>(bits_cast<Real>(magnitude | sign), c)) &
               ~sign_bit<Real>;
    } else if constexpr (!is_stochastic(M)) {
        return bits_cast<Bits>(round_to_grid<M>(a, c));
    } else {
        const Real down = round_to_grid<RoundingMode::toward_zero>(a, c), rest = a - down,
                   q = bits_cast<Real>(c_bits - c_above_quantum<Real>);
        if constexpr (M == RoundingMode::stochastic_equal) {
            return bits_cast<Bits>(((rest != 0) & (drawn >> 31 != 0)) ? down + q : down);
        } else if constexpr (M == RoundingMode::stochastic && Few) {
            // floor(rest / q 2^N) + R >= 2^N is equivalent to rest >= q (1 - R / 2^N), whose right
            // side is exact for at most 24 bits.
            const Real threshold =
                Real{1} - static_cast<Real>(static_cast<std::int32_t>(drawn >> 8)) * Real{0x1p-24};
            return bits_cast<Bits>(rest >= q * threshold ? down + q : down);
        } else if constexpr (M == RoundingMode::stochastic) {
            // Computes the first 32 binary digits of rest / q, sixteen at a time, because AVX2
            // converts floating-point numbers only to signed integers.
            const Real above =
                rest * bits_cast<Real>(c_times_inverse<Real> - c_bits) * Real{0x1p16};
            const auto high = static_cast<std::int32_t>(above);
            const auto low =
                static_cast<std::int32_t>((above - static_cast<Real>(high)) * Real{0x1p16});
            const std::uint32_t count =
                static_cast<std::uint32_t>(high) << 16 | static_cast<std::uint32_t>(low);
            return bits_cast<Bits>(count + drawn < count ? down + q : down);
        }
    }
}

// The code of a rounded magnitude that is at most the largest value.
template <class Real>
APSCOPE_HD BitsOf<Real> movable_code(BitsOf<Real> rounded, const MovableFormat<Real>& f,
                                     BitsOf<Real> shift) {
    using Bits = BitsOf<Real>;
    const Bits min = f.grid.least + shift, c = min + f.grid.lift;
    const Bits quanta = bits_cast<Bits>(bits_cast<Real>(rounded) + bits_cast<Real>(c)) - c;
    return select(rounded < min, quanta, ((rounded - shift) >> f.code_shift) - f.code_offset);
}

// Rounds one element and returns its value times the scale of its block or, if Encodes, its code.
template <RoundingMode M, bool Few, bool Ratio, bool Encodes, class Real>
APSCOPE_HD auto block_element(Real x, const BlockCast<Real>& cast, BitsOf<Real> shift,
                              Real multiply, Real value, std::uint32_t drawn) {
    using Bits = BitsOf<Real>;
    if constexpr (Ratio) {
        x *= multiply;
        x = x < -cast.bound ? -cast.bound : x;
        x = cast.bound < x ? cast.bound : x;
        shift = 0;
    }
    const Bits bits = bits_cast<Bits>(x), sign = bits & sign_bit<Real>;
    const bool negative = sign != 0;
    const Bits rounded =
        round_movable<M, Few, Real>(bits ^ sign, negative, cast.element, shift, drawn);
    const bool over = !Ratio && rounded > cast.element.largest + shift;
    if constexpr (Encodes) {
        const Bits code = movable_code<Real>(rounded, cast.element, shift);
        const Bits below =
            select(code == 0, cast.zero_code, ((code ^ cast.flip) + cast.add) & cast.mask);
        return select(over, select(negative, cast.over_code_negative, cast.over_code_positive),
                      select(negative, below, code));
    } else {
        Bits result = rounded | (sign & select(rounded == 0, cast.negative_zero, sign_bit<Real>));
        if constexpr (Ratio) {
            return bits_cast<Real>(result) * value / cast.tensor_scale;
        } else {
            const Bits beyond = select(negative, cast.over_negative + (shift & cast.moves_negative),
                                       cast.over_positive + (shift & cast.moves_positive));
            result = select(over, beyond, result);
            return bits_cast<Real>(result);
        }
    }
}

// Rounds a run of blocks, each of `steps` times block_step elements.
template <RoundingMode M, bool Few, bool Ratio, bool Encodes, class Real>
struct RoundBlocksInSteps {
    using Out = std::conditional_t<Encodes, std::uint8_t, Real>;
    static APSCOPE_INLINE void run(const Real* __restrict in, Out* __restrict out,
                                   std::size_t blocks, std::size_t steps,
                                   const BlockCast<Real>* given,
                                   const BlockScales<Real>* given_scales,
                                   const std::uint32_t* __restrict drawn) {
        using Result = std::conditional_t<Encodes, BitsOf<Real>, Real>;
        const BlockCast<Real> cast = *given;
        const BlockScales<Real> scales = *given_scales;
        for (std::size_t b = 0; b < blocks; ++b) {
            const BitsOf<Real> shift = Ratio ? 0 : scales.shift[b];
            const Real multiply = Ratio ? scales.multiply[b] : Real{0},
                       value = Ratio ? scales.value[b] : Real{0};
            for (std::size_t step = 0; step < steps; ++step, in += block_step, out += block_step) {
                Result results[block_step];
                for (std::size_t j = 0; j < block_step; ++j) {
                    results[j] = block_element<M, Few, Ratio, Encodes, Real>(
                        in[j], cast, shift, multiply, value, is_stochastic(M) ? drawn[j] : 0);
                }
                for (std::size_t j = 0; j < block_step; ++j) out[j] = static_cast<Out>(results[j]);
                if (is_stochastic(M)) drawn += block_step;
            }
        }
    }
};

// Rounds a run of elements, with one scale per element.
template <RoundingMode M, bool Few, bool Ratio, bool Encodes, class Real>
struct RoundBlockElements {
    using Out = std::conditional_t<Encodes, std::uint8_t, Real>;
    static APSCOPE_INLINE void run(const Real* __restrict in, Out* __restrict out,
                                   std::size_t count, const BlockCast<Real>* given,
                                   const BlockScales<Real>* given_scales,
                                   const std::uint32_t* __restrict drawn) {
        const BlockCast<Real> cast = *given;
        const BlockScales<Real> scales = *given_scales;
        for (std::size_t i = 0; i < count; ++i) {
            out[i] = static_cast<Out>(block_element<M, Few, Ratio, Encodes, Real>(
                in[i], cast, Ratio ? 0 : scales.shift[i], Ratio ? scales.multiply[i] : Real{0},
                Ratio ? scales.value[i] : Real{0}, is_stochastic(M) ? drawn[i] : 0));
        }
    }
};

// Computes the largest magnitude of each block, as bits, so that infinities and NaNs are larger
// than all numbers. With Size 0, block b has counts[b] elements or, if `uniform`, counts[0].
template <class Real, std::size_t Size>
struct BlockMaxima {
    static APSCOPE_INLINE void run(const Real* in, BitsOf<Real>* maxima, std::size_t blocks,
                                   const std::uint32_t* counts, bool uniform) {
        for (std::size_t b = 0; b < blocks; ++b) {
            const std::size_t count = Size != 0 ? Size : counts[uniform ? 0 : b];
            BitsOf<Real> largest = 0;
            for (std::size_t j = 0; j < count; ++j) {
                const BitsOf<Real> magnitude = bits_cast<BitsOf<Real>>(in[j]) & ~sign_bit<Real>;
                largest = largest > magnitude ? largest : magnitude;
            }
            maxima[b] = largest;
            in += count;
        }
    }
};

// Does the same for `columns` blocks side by side, whose elements are `stride` apart.
template <class Real>
struct ColumnMaxima {
    static APSCOPE_INLINE void run(const Real* in, BitsOf<Real>* maxima, std::size_t columns,
                                   std::size_t rows, std::size_t stride) {
        for (std::size_t c = 0; c < columns; ++c) maxima[c] = 0;
        for (std::size_t row = 0; row < rows; ++row, in += stride) {
            for (std::size_t c = 0; c < columns; ++c) {
                const BitsOf<Real> magnitude = bits_cast<BitsOf<Real>>(in[c]) & ~sign_bit<Real>;
                maxima[c] = maxima[c] > magnitude ? maxima[c] : magnitude;
            }
        }
    }
};

// The constants of a power-of-two rule, for the bits of amax, and the limits of k and amax within
// which the loops above support a block.
template <class Real>
struct PowerScaleRule {
    using Bits = BitsOf<Real>;
    std::int64_t offset;           // k = exponent field of amax - offset, plus 0 or 1
    Bits more_from;                // k is larger by 1 if the fraction bits of amax are at least
                                   // this
    std::int64_t min, max;         // the smallest and the largest exponent of the scale format
    std::int64_t lowest, highest;  // the supported k
    Bits limit;                    // the first unsupported amax
};
template <class Real>
struct PowerScales {
    static APSCOPE_INLINE void run(const BitsOf<Real>* maxima, std::size_t blocks,
                                   const PowerScaleRule<Real>* given, std::int32_t* exponents,
                                   BitsOf<Real>* shifts, std::uint8_t* served) {
        using Bits = BitsOf<Real>;
        using Signed = std::make_signed_t<Bits>;
        constexpr int fraction_bits = Layout<Real>::fraction_bits;
        const PowerScaleRule<Real> rule = *given;
        const auto offset = static_cast<Signed>(rule.offset), min = static_cast<Signed>(rule.min),
                   max = static_cast<Signed>(rule.max);
        const auto lowest = static_cast<Signed>(rule.lowest),
                   highest = static_cast<Signed>(rule.highest);
        for (std::size_t b = 0; b < blocks; ++b) {
            const Bits amax = maxima[b], fraction = amax & ((Bits{1} << fraction_bits) - 1);
            Signed k = static_cast<Signed>(amax >> fraction_bits) - offset +
                       (fraction >= rule.more_from ? 1 : 0);
            k = k < min ? min : k;
            k = k > max ? max : k;
            k = amax == 0 ? min : k;
            exponents[b] = static_cast<std::int32_t>(k);
            const bool inside = (amax >= Bits{1} << fraction_bits) & (amax < rule.limit) &
                                (k >= lowest) & (k <= highest);
            served[b] = static_cast<std::uint8_t>(inside | (amax == 0));
            k = k < lowest ? lowest : k;  // in a block of zeros, k has no effect
            k = k > highest ? highest : k;
            shifts[b] = static_cast<Bits>(k) << fraction_bits;
        }
    }
};

// The constants of the scale rule `ratio`, in NVFP4's order of fp32 operations (see choose_scale()
// in block_rule.cpp). `stretch` and `divides_first` are those of BlockSettings.
struct RatioScaleRule {
    MovableFormat<float> scale;
    float element_largest, scale_largest, tensor_scale, tensor_scale_inverse, stretch;
    bool divides_first;
};
struct RatioScales {
    static APSCOPE_INLINE void run(const std::uint32_t* maxima, std::size_t blocks,
                                   const RatioScaleRule* given, float* multiply, float* values,
                                   std::uint8_t* codes, std::uint8_t* served) {
        const RatioScaleRule rule = *given;
        const float factor = rule.tensor_scale * (1.0f / rule.element_largest);
        for (std::size_t b = 0; b < blocks; ++b) {
            const float amax = bits_cast<float>(maxima[b]);
            const float ratio =
                (rule.divides_first ? amax / rule.element_largest * rule.tensor_scale
                                    : amax * factor) *
                rule.stretch;
            const float clipped = ratio < rule.scale_largest ? ratio : rule.scale_largest;
            const std::uint32_t rounded = round_movable<RoundingMode::ties_to_even, true, float>(
                bits_cast<std::uint32_t>(clipped), false, rule.scale, 0, 0);
            const float divisor = bits_cast<float>(rounded) * rule.tensor_scale_inverse;
            const float inverse = 1.0f / divisor;
            values[b] = bits_cast<float>(rounded);
            multiply[b] = FLT_MAX < inverse ? FLT_MAX : inverse;
            codes[b] = static_cast<std::uint8_t>(movable_code<float>(rounded, rule.scale, 0));
            // The loops support blocks without infinities and NaNs whose ratio and inverse are
            // neither NaN nor negative.
            const bool plain = (maxima[b] < infinity_bits<float>)&(
                bits_cast<std::uint32_t>(ratio) <= infinity_bits<float>);
            served[b] = static_cast<std::uint8_t>(
                plain & (bits_cast<std::uint32_t>(inverse) <= infinity_bits<float>));
        }
    }
};

// Computes the largest magnitude whose bits are below `limit`, as bits.
struct LargestBelow {
    static APSCOPE_INLINE void run(const float* in, std::size_t count, std::uint32_t limit,
                                   std::uint32_t* largest) {
        std::uint32_t found = 0;
        for (std::size_t i = 0; i < count; ++i) {
            std::uint32_t magnitude = bits_cast<std::uint32_t>(in[i]) & ~sign_bit<float>;
            magnitude = select(magnitude < limit, magnitude, 0u);
            found = found > magnitude ? found : magnitude;
        }
        *largest = found;
    }
};

// The value of an element that is an integer in two's complement, in the low bits of a code, times
// `unit`. `half` is the highest of these bits.
APSCOPE_HD float integer_value(std::uint32_t code, std::uint32_t half, float unit) {
    return static_cast<float>(static_cast<std::int32_t>((code ^ half) - half)) * unit;
}
struct DecodeIntegers {
    static APSCOPE_INLINE void run(const std::uint8_t* in, float* out, std::size_t count, int bits,
                                   float unit) {
        const std::uint32_t half = 1u << (bits - 1);
        for (std::size_t i = 0; i < count; ++i) out[i] = integer_value(in[i], half, unit);
    }
};

// Returns element * scale / tensor_scale, as combine_block_value() does. The hardware rounds the
// product and the quotient; without `divides`, the tensor scale is 1.
template <bool divides>
APSCOPE_HD float block_value(float element, float scale, float tensor_scale) {
    const float product = element * scale, value = divides ? product / tensor_scale : product;
    return product == product ? value : bits_cast<float>(nan_bits<float>);
}
template <bool divides>
struct ScaleBlocksInSteps {
    static APSCOPE_INLINE void run(const float* __restrict in, float* __restrict out,
                                   std::size_t blocks, std::size_t steps,
                                   const float* __restrict scales, float tensor_scale) {
        for (std::size_t b = 0; b < blocks; ++b) {
            const float scale = scales[b];
            for (std::size_t step = 0; step < steps; ++step, in += block_step, out += block_step) {
                for (std::size_t j = 0; j < block_step; ++j)
                    out[j] = block_value<divides>(in[j], scale, tensor_scale);
            }
        }
    }
};
template <bool divides>
struct ScaleBlockElements {
    static APSCOPE_INLINE void run(const float* __restrict in, float* __restrict out,
                                   std::size_t count, const float* __restrict scales,
                                   float tensor_scale) {
        for (std::size_t i = 0; i < count; ++i)
            out[i] = block_value<divides>(in[i], scales[i], tensor_scale);
    }
};

}  // namespace apscope::detail
