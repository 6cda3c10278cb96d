// Ties to even and the code of the result in one pass, where both quantize_addition.h and code_kernels.h serve:
// the rounded magnitude goes to its code in the same registers, and what follows from overflow, infinities and
// NaN are codes already.
#pragma once

#include "emulation/cast/code_kernels.h"
#include "emulation/cast/quantize_addition.h"

namespace apscope::detail {

struct AdditionCodes {
    AdditionCast<float> cast;
    CodeMap map;
    std::uint32_t zero_sign;             // the code of -0: the sign's, or 0
    std::uint32_t overflow, infinite;    // codes of positive ones, and what their negatives differ in
    std::uint32_t overflow_flip, infinite_flip, nan;
};

inline AdditionCodes make_addition_codes(const Cast<float>& cast, const CodeMap& map, const Codec& codec) {
    AdditionCodes c{make_addition_cast(cast), map, cast.negative_zero != 0 ? map.sign_code : 0, 0, 0, 0, 0, 0};
    const auto code = [&](std::uint32_t bits) { return encode_one<float>(bits_cast<float>(bits), codec); };
    // Of two signs, but for NaN, which has none.
    const auto negated = [](std::uint32_t bits) { return bits > infinity_bits<float> ? bits : bits | sign_bit<float>; };
    c.overflow = code(c.cast.overflow);
    c.overflow_flip = c.overflow ^ code(negated(c.cast.overflow));
    c.infinite = code(c.cast.infinite);
    c.infinite_flip = c.infinite ^ code(negated(c.cast.infinite));
    c.nan = code(nan_bits<float>);
    return c;
}

// Full: with overflow, infinities and NaN (quantize_buffers.h).
template <bool Full>
APSCOPE_HD std::uint32_t code_by_addition(float x, const AdditionCodes& c) {
    constexpr std::uint32_t infinity = infinity_bits<float>;
    const std::uint32_t bits = bits_cast<std::uint32_t>(x), magnitude = bits & 0x7FFFFFFFu;
    const std::uint32_t negative = static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 31);
    std::uint32_t code = magnitude_code(rounded_by_addition<Full, float>(magnitude, c.cast), c.map);
    code |= select(code == 0, c.zero_sign, c.map.sign_code) & negative;
    if constexpr (Full) {
        code = select(magnitude >= c.cast.overflow_from, c.overflow ^ (c.overflow_flip & negative), code);
        code = select(magnitude == infinity, c.infinite ^ (c.infinite_flip & negative), code);
        code = select(magnitude > infinity, c.nan, code);
    }
    return code;
}

template <class Code>
struct EncodeByAddition {
    static APSCOPE_INLINE void run(const float* in, Code* out, std::size_t count, const AdditionCodes* given) {
        const AdditionCodes c = *given;
        by_overflow(in, count, c.cast.overflow_from - 1, [&]<bool Full>(std::size_t begin, std::size_t n) __attribute__((always_inline)) {
            write_codes(in + begin, out + begin, n, [&](float x) __attribute__((always_inline)) { return code_by_addition<Full>(x, c); });
        });
    }
};

}  // namespace apscope::detail
