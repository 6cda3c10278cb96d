// Helpers that treat floating-point values as bits: the layouts of fp32 and fp64, bit casts, and
// selection without branches.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "core/strict_floats.h"

namespace apscope::detail {

// The bit layout of Real: fp32 (float) or fp64 (double).
template <class Real>
struct Layout;
template <>
struct Layout<float> {
    using Bits = std::uint32_t;
    static constexpr int fraction_bits = 23, bias = 127;
};
template <>
struct Layout<double> {
    using Bits = std::uint64_t;
    static constexpr int fraction_bits = 52, bias = 1023;
};
template <class Real>
using BitsOf = typename Layout<Real>::Bits;

template <class To, class From>
APSCOPE_HD To bits_cast(From from) {
    return __builtin_bit_cast(To, from);
}

// Returns a if the condition is true, else b. The selection uses masks, because compilers vectorise
// chains of masks more reliably than chains of branches.
template <class Bits>
APSCOPE_HD Bits select(bool condition, Bits a, Bits b) {
    return b ^ ((a ^ b) & (Bits{0} - static_cast<Bits>(condition)));
}

// The bit patterns of -0, +infinity and the canonical quiet NaN.
template <class Real>
inline constexpr BitsOf<Real> sign_bit = BitsOf<Real>{1} << (sizeof(Real) * 8 - 1);
template <class Real>
inline constexpr BitsOf<Real> infinity_bits =
    ((BitsOf<Real>{1} << (sizeof(Real) * 8 - 1 - Layout<Real>::fraction_bits)) - 1)
    << Layout<Real>::fraction_bits;
template <class Real>
inline constexpr BitsOf<Real> nan_bits =
    infinity_bits<Real> | BitsOf<Real>{1} << (Layout<Real>::fraction_bits - 1);

// 2^exponent, a normal number.
APSCOPE_HD double double_power_of_two(int exponent) {
    return bits_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

}  // namespace apscope::detail
