// sum += row, for simd::run.
#pragma once

#include <cstddef>

#include "emulation/machine/simd.h"

namespace apscope::detail {

struct AddRow {
    static APSCOPE_INLINE void run(const double* row, std::size_t count, double* sum) {
        for (std::size_t i = 0; i < count; ++i) sum[i] += row[i];
    }
};

}  // namespace apscope::detail
