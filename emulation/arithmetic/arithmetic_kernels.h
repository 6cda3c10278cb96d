// The loops of arithmetic over rows of fp64 numbers: in two steps, each as vector code (the
// operation, exact or rounded to odd, and then its rounding), or in one step on wide numbers.
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

// Rounds the exact result of an operation, or `value` where fp64 holds the result: a zero, an
// infinity, NaN.
using RoundExact = double (*)(const WideNumber& exact, double value, const Cast<double>& cast,
                              std::uint64_t random);
template <RoundingMode M>
double round_exact(const WideNumber& exact, double value, const Cast<double>& cast,
                   std::uint64_t random) {
    return exact.significand != 0 ? wide_to_format<M>(exact, cast, random)
                                  : round_to_format<M, double>(value, cast, random);
}

// Computes out = round(a op b (op c)) on wide numbers, the bits of operate_wide(), without vector
// code. The rounding is called, so that one is compiled for each mode, not for each mode of each
// operation.
template <Operation Op>
void operate_wide_row(const double* a, const double* b, const double* c, double* out,
                      std::size_t count, const Cast<double>& cast, double floor,
                      const std::uint64_t* words, RoundExact round) {
    const bool down = cast.rounding == RoundingMode::toward_negative;
    for (std::size_t i = 0; i < count; ++i) {
        const double x = flush_operand(a[i], floor), y = flush_operand(b[i], floor),
                     z = flush_operand(c[i], floor);
        const bool special = is_special<Op>(x, y, z);
        const WideNumber exact = special ? WideNumber{} : exact_wide<Op>(x, y, z);
        const double value = special ? special_result<Op>(x, y, z, down) : down ? -0.0 : 0.0;
        out[i] = round(exact, value, cast, words != nullptr ? words[i] : 0);
    }
}

}  // namespace apscope::detail
