// The operations of PTX's arithmetic on one lane, by its documentation: integers wrap around,
// shifts by more than the width give 0 or the sign, numbers round to nearest even.
#pragma once

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "lanes.h"

namespace apscope::interpreter {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, S32, U32>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, S64, U64>,
                       std::conditional_t<std::is_signed_v<T>, S128, U128>>>;

// Integers wrap around, so they are computed without sign.
template <class T, class F>
T wrapped(T a, T b, F f) {
    if constexpr (std::is_integral_v<T>)
        return static_cast<T>(f(static_cast<U64>(a), static_cast<U64>(b)));
    else return arithmetic(f(a, b));
}
struct Add {
    template <class T>
    static T of(T a, T b) {
        return wrapped(a, b, [](auto x, auto y) { return x + y; });
    }
};
struct Sub {
    template <class T>
    static T of(T a, T b) {
        return wrapped(a, b, [](auto x, auto y) { return x - y; });
    }
};
struct Mul {
    template <class T>
    static T of(T a, T b) {
        return wrapped(a, b, [](auto x, auto y) { return x * y; });
    }
};
struct MulHigh {
    template <class T>
    static T of(T a, T b) {
        return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b) >> 8 * sizeof(T));
    }
};
struct MulWide {
    template <class T>
    static Wide<T> of(T a, T b) {
        return static_cast<Wide<T>>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
    }
};
struct Mad {
    template <class T>
    static T of(T a, T b, T c) {
        return Add::of(Mul::of(a, b), c);
    }
};
struct MadHigh {
    template <class T>
    static T of(T a, T b, T c) {
        return Add::of(MulHigh::of(a, b), c);
    }
};
struct MadWide {
    template <class T>
    static Wide<T> of(T a, T b, Wide<T> c) {
        return Add::of(MulWide::of(a, b), c);
    }
};
struct Fma {
    template <class T>
    static T of(T a, T b, T c) {
        return arithmetic(std::fma(a, b, c));
    }
};
// The direction is one of <cfenv>'s; the compiler moves no arithmetic across the calls.
template <int Direction>
struct DirectedFma {
    static float of(float a, float b, float c) {
        float (*volatile fused)(float, float, float) = std::fmaf;
        const int before = std::fegetround();
        std::fesetround(Direction);
        const float rounded = fused(a, b, c);
        std::fesetround(before);
        return arithmetic(rounded);
    }
};
struct CopySign {
    static float of(float a, float b) { return std::copysign(b, a); }
};
struct Div {
    template <class T>
    static T of(T a, T b) {
        if constexpr (std::is_integral_v<T>)
            return b == 0 ? static_cast<T>(-1) : static_cast<T>(a / b);
        else return arithmetic(a / b);
    }
};
struct Rem {
    template <class T>
    static T of(T a, T b) {
        return b == 0 ? a : static_cast<T>(a % b);
    }
};
struct Reciprocal {
    template <class T>
    static T of(T a) {
        return arithmetic(T{1} / a);
    }
};
struct Sqrt {
    template <class T>
    static T of(T a) {
        return arithmetic(std::sqrt(a));
    }
};
struct Neg {
    template <class T>
    static T of(T a) {
        if constexpr (std::is_integral_v<T>) return static_cast<T>(U64{0} - static_cast<U64>(a));
        else return arithmetic(-a);
    }
};
struct Abs {
    template <class T>
    static T of(T a) {
        if constexpr (std::is_integral_v<T>) return a < 0 ? Neg::of(a) : a;
        else return arithmetic(std::abs(a));
    }
};
struct Floor {
    template <class T>
    static T of(T a) {
        return arithmetic(std::floor(a));
    }
};
// The number, if one of the operands is a NaN; -0 is less than +0.
struct Min {
    template <class T>
    static T of(T a, T b) {
        if constexpr (std::is_floating_point_v<T>) {
            if (a != a || b != b) return arithmetic(a != a ? b : a);
            if (a == b) return std::signbit(a) ? a : b;
        }
        return a < b ? a : b;
    }
};
struct Max {
    template <class T>
    static T of(T a, T b) {
        if constexpr (std::is_floating_point_v<T>) {
            if (a != a || b != b) return arithmetic(a != a ? b : a);
            if (a == b) return std::signbit(a) ? b : a;
        }
        return a > b ? a : b;
    }
};
struct And {
    template <class T>
    static T of(T a, T b) {
        return static_cast<T>(a & b);
    }
};
struct Or {
    template <class T>
    static T of(T a, T b) {
        return static_cast<T>(a | b);
    }
};
struct Xor {
    template <class T>
    static T of(T a, T b) {
        return static_cast<T>(a ^ b);
    }
};
struct Not {
    template <class T>
    static T of(T a) {
        if constexpr (std::is_same_v<T, bool>) return !a;
        else return static_cast<T>(~a);
    }
};
struct ShiftLeft {
    template <class T>
    static T of(T a, U32 n) {
        return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<U64>(a) << n);
    }
};
struct ShiftRight {
    template <class T>
    static T of(T a, U32 n) {
        const U32 most = 8 * sizeof(T) - 1;
        if (n > most) return a < 0 ? static_cast<T>(-1) : T{0};
        return static_cast<T>(a >> n);
    }
};
template <bool Left, bool Wraps>
struct Funnel {
    static U32 of(U32 low, U32 high, U32 n) {
        n = Wraps ? n & 31 : std::min(n, 32u);
        const U64 both = U64{high} << 32 | low;
        return static_cast<U32>(Left ? both << n >> 32 : both >> n);
    }
};
struct BitInsert {
    template <class T>
    static T of(T a, T b, U32 position, U32 length) {
        position &= 255;
        length &= 255;
        constexpr U32 size = 8 * sizeof(T);
        if (position >= size) return b;
        const U64 ones = length >= 64 ? ~U64{0} : (U64{1} << length) - 1;
        return static_cast<T>((b & ~(ones << position)) |
                              ((static_cast<U64>(a) & ones) << position));
    }
};
struct BitExtract {
    template <class T>
    static T of(T a, U32 position, U32 length) {
        position &= 255;
        length &= 255;
        constexpr U32 size = 8 * sizeof(T);
        U64 result = 0;
        const U32 last = std::min(position + length - 1, size - 1);
        const bool sign =
            std::is_signed_v<T> && length != 0 && (static_cast<U64>(a) >> last & 1) != 0;
        for (U32 i = 0; i < size; ++i) {
            const bool bit = i < length && position + i < size
                                 ? (static_cast<U64>(a) >> (position + i) & 1) != 0
                                 : sign;
            result |= U64{bit} << i;
        }
        return static_cast<T>(result);
    }
};
struct Permute {
    static U32 of(U32 a, U32 b, U32 selector) {
        const U64 both = U64{b} << 32 | a;
        U32 result = 0;
        for (int k = 0; k < 4; ++k) {
            const U32 s = selector >> 4 * k & 15;
            U32 byte = static_cast<U32>(both >> 8 * (s & 7)) & 255;
            if ((s & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
            result |= byte << 8 * k;
        }
        return result;
    }
};
struct Lop3 {
    static U32 of(U32 a, U32 b, U32 c, U32 table) {
        U32 result = 0;
        for (U32 k = 0; k < 8; ++k)
            if ((table >> k & 1) != 0)
                result |=
                    ((k & 4) != 0 ? a : ~a) & ((k & 2) != 0 ? b : ~b) & ((k & 1) != 0 ? c : ~c);
        return result;
    }
};
struct LeadingZeros {
    template <class T>
    static U32 of(T a) {
        return static_cast<U32>(std::countl_zero(static_cast<Unsigned<T>>(a)));
    }
};
struct Population {
    template <class T>
    static U32 of(T a) {
        return static_cast<U32>(std::popcount(static_cast<Unsigned<T>>(a)));
    }
};
struct Reverse {
    template <class T>
    static T of(T a) {
        T result = 0;
        for (U32 i = 0; i < 8 * sizeof(T); ++i)
            result |= static_cast<T>((a >> i & 1) << (8 * sizeof(T) - 1 - i));
        return result;
    }
};
struct Select {
    template <class T>
    static T of(T a, T b, bool p) {
        return p ? a : b;
    }
};
struct Copy {
    template <class T>
    static T of(T a) {
        return a;
    }
};
// ---- Conversions ----------------------------------------------------------------------------

template <class To>
struct Convert {
    template <class From>
    static To of(From x) {
        if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {  // rzi
            if (x != x) return sizeof(To) == 8 ? static_cast<To>(U64{1} << 63) : To{0};
            const From t = std::trunc(x);
            if (t >= std::ldexp(From{1}, std::numeric_limits<To>::digits))
                return std::numeric_limits<To>::max();
            if (t < static_cast<From>(std::numeric_limits<To>::min()))
                return std::numeric_limits<To>::min();
            return static_cast<To>(t);
        } else if constexpr (std::is_floating_point_v<From> && std::is_floating_point_v<To>) {
            if (x == x) return static_cast<To>(x);
            if constexpr (std::is_same_v<To, double>)
                return std::bit_cast<double>(0x7FFFFFFFFFFFFFFFull);
            else return std::bit_cast<float>(0x7FFFFFFFu);
        } else {
            return static_cast<To>(x);
        }
    }
};
}  // namespace apscope::interpreter
