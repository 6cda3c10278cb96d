// 10 log10(x) by a fixed sequence of IEEE operations, so that every machine writes the same digits
// (docs/definitions.md, section 4).
#pragma once

#include "core/fixed_log2.h"

namespace apscope::detail {

inline double fixed_decibel(double ratio) {
    return 3.0102999566398120 * fixed_log2(ratio);  // 10 log10 2, times log2
}

}  // namespace apscope::detail
