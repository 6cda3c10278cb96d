// The loops of arithmetic over rows of fp64 numbers, in two steps that are vector code each: the
// operation, exact or rounded to odd, then the one rounding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/exact_arithmetic.h"
#include "core/philox.h"
#include "emulation/reduce_kernels.h"
#include "emulation/simd.h"

namespace apscope {

// out = a op b (op c), rounded to odd; out may be any of the operands' rows.
template <Operation Op>
struct OperateToOdd {
    static APSCOPE_INLINE void run(const double* a, const double* b, const double* c, double* out, std::size_t count, bool down) {
#pragma GCC ivdep  // out is a row of its own or exactly an operand's
        for (std::size_t i = 0; i < count; ++i) out[i] = to_odd<Op>(a[i], b[i], c[i], down);
    }
};

// row = round(row).
template <RoundingMode M, bool HasGap>
struct RoundRow {
    static APSCOPE_INLINE void run(double* row, std::size_t count, const Cast<double>* given, const RandomStream* stream,
                                   std::uint64_t first) {
        Cast<double> cast = *given;
        if (!HasGap) cast.gap_high = 0;  // lets the compiler drop the branch
        if constexpr (is_stochastic(M)) {
            RandomWords words(*stream);
            for (std::size_t i = 0; i < count; ++i) row[i] = round_to_format<M, double>(row[i], cast, words.at(first + i));
        } else {
            for (std::size_t i = 0; i < count; ++i) row[i] = round_to_format<M, double>(row[i], cast, 0);
        }
    }
};

}  // namespace apscope
