// The loops of arithmetic over rows of fp64 numbers: either two vectorised steps (the result, exact
// or rounded to odd, then its rounding to the format), or one step on wide numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/exact_arithmetic.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// Flushes an operand below the smallest normal number to a zero of its sign. A floor of 0 changes
// nothing.
APSCOPE_HD double flush_operand(double x, double floor) {
    const std::uint64_t bits = bits_cast<std::uint64_t>(x), sign = bits & sign_bit<double>;
    return bits_cast<double>(select(bits_cast<double>(bits ^ sign) < floor, sign, bits));
}

// Computes out = a op b (op c), rounded to odd; `out` may be the row of an operand.
template <Operation Op, bool Flush>
struct OperateToOdd {
    static APSCOPE_INLINE void run(const double* a, const double* b, const double* c, double* out,
                                   std::size_t count, bool down, double floor) {
#pragma GCC ivdep  // out is a separate row, or that of an operand
        for (std::size_t i = 0; i < count; ++i) {
            if constexpr (Flush) {
                out[i] = to_odd<Op>(flush_operand(a[i], floor), flush_operand(b[i], floor),
                                    flush_operand(c[i], floor), down);
            } else {
                out[i] = to_odd<Op>(a[i], b[i], c[i], down);
            }
        }
    }
};

// Computes out = round(a op b (op c)) on wide numbers, without vector code.
template <Operation Op, RoundingMode M>
void operate_wide_row(const double* a, const double* b, const double* c, double* out,
                      std::size_t count, const Cast<double>& cast, double floor,
                      const std::uint64_t* words) {
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t random = is_stochastic(M) ? words[i] : 0;
        out[i] = operate_wide<Op, M>(flush_operand(a[i], floor), flush_operand(b[i], floor),
                                     flush_operand(c[i], floor), cast, random);
    }
}

}  // namespace apscope::detail
