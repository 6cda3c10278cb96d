// Products, sums and fused multiply-adds of fp32 numbers, rounded to odd in fp32, and the rounding
// of such a number to a narrower format. The second rounding equals one rounding of the exact
// result where sum_to_odd_rounds_safely() holds (emulation/arithmetic/value_range.h).
#pragma once

#include <cmath>

#include "core/exact_sum.h"
#include "emulation/arithmetic/rounding_steps.h"

namespace apscope::detail {

// Returns x, which was rounded to odd in fp64, rounded to odd in fp32. Beyond fp32's largest number
// that is the largest number.
APSCOPE_HD float narrowed_to_odd(double x) {
    const auto near = static_cast<float>(x);
    if (near == x || x != x) return near;
    const bool beyond = std::fabs(static_cast<double>(near)) > std::fabs(x);
    return bits_cast<float>((bits_cast<std::uint32_t>(near) - (beyond ? 1 : 0)) | 1);
}

// Returns a b + c, rounded to odd. A zero has the sign that ties_to_even gives it, and a NaN any
// bits. A GPU rounds each operation in the direction that its instruction names: of the numbers
// below and above an inexact result, one is odd; those of an exact result are the same. The
// assembler code keeps the choice between them one predicate, which a selection of values is not.
APSCOPE_HD float fma_to_odd(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
    float odd;
    asm("{.reg .pred even;\n\t"
        ".reg .b32 last;\n\t"
        "fma.rm.f32 %0, %1, %2, %3;\n\t"
        "and.b32 last, %0, 1;\n\t"
        "setp.eq.u32 even, last, 0;\n\t"
        "@even fma.rp.f32 %0, %1, %2, %3;}"
        : "=&f"(odd)
        : "f"(a), "f"(b), "f"(c));
    return odd;
#else
    return narrowed_to_odd(add_to_odd(static_cast<double>(a) * b, c));
#endif
}

// round_step() for code in which a fused multiply-add costs as much as an addition: the product of
// the power of two in x and a constant is c.
template <Step S>
APSCOPE_HD float round_odd(float x, const StepCast<float>& s) {
    if constexpr (S != Step::addition) {
        return round_step<S>(x, s);
    } else {
        using Bits = std::uint32_t;
        const float size = std::fabs(x),
                    lift = bits_cast<float>(bits_cast<Bits>(1.0f) + s.grid.lift),
                    larger = std::fmax(size, bits_cast<float>(s.grid.least)),
                    power = bits_cast<float>(bits_cast<Bits>(larger) & infinity_bits<float>),
                    lifted = std::fma(power, lift, x), even = std::fma(power, -lift, lifted);
        const float result = size >= s.overflow_from ? bits_cast<float>(s.overflow_positive) : even;
        return std::copysign(result, x);
    }
}

}  // namespace apscope::detail
