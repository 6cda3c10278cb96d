// Sorts fp32 numbers: short rows by a sorting network, long rows by a radix sort of the bit
// patterns. Neither has branches that depend on the numbers.
#pragma once

#include <cstdint>
#include <span>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

class AscendingSort {
public:
    // x: fp32 numbers without NaN. -0 is returned as 0.
    void sort(std::span<const double> x, Row& sorted);

private:
    void sort_digits(std::span<const double> x);

    Buffer<std::uint32_t> keys_, other_, counts_;
};

}  // namespace apscope::detail
