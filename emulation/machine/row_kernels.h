// Kernels for simd::run(): short loops over one row of numbers.
#pragma once

#include <cstddef>

#include "emulation/machine/divide.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// Adds a row: sum += row.
struct AddWidened {
    static APSCOPE_INLINE void run(double* sum, const float* row, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) sum[i] += row[i];
    }
};

// Divides a row: out = row / divisor.
struct WidenAndDivide {
    static APSCOPE_INLINE void run(const float* row, double* out, double divisor,
                                   std::size_t count) {
        divide_by(divisor, [&](auto quotient) __attribute__((always_inline)) {
            for (std::size_t i = 0; i < count; ++i) out[i] = quotient(row[i]);
        });
    }
};

// Sets decoded = row and codes = scale * row.
struct WidenAndScale {
    static APSCOPE_INLINE void run(const float* row, double* decoded, double* codes, double scale,
                                   std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            decoded[i] = row[i];
            codes[i] = row[i] * scale;
        }
    }
};

}  // namespace apscope::detail
