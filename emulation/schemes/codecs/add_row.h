// Kernels for simd::run that compute sum += row: AddRow in fp64, AddNarrowed in fp32, where the
// first row replaces the sum.
#pragma once

#include <cstddef>

#include "emulation/machine/simd.h"

namespace apscope::detail {

struct AddRow {
    static APSCOPE_INLINE void run(const double* row, std::size_t count, double* sum) {
        for (std::size_t i = 0; i < count; ++i) sum[i] += row[i];
    }
};

struct AddNarrowed {
    static APSCOPE_INLINE void run(const double* row, bool is_first, std::size_t count,
                                   float* sum) {
        for (std::size_t i = 0; i < count; ++i)
            sum[i] = is_first ? static_cast<float>(row[i]) : sum[i] + static_cast<float>(row[i]);
    }
};

}  // namespace apscope::detail
