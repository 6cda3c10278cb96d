// fp32 numbers in ascending order, few by a sorting network and many by the digits of their bits:
// nothing has to be predicted.
#pragma once

#include <cstdint>
#include <span>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

class AscendingSort {
public:
    // x: numbers that fp32 holds, none NaN. -0 counts and comes out as 0.
    void sort(std::span<const double> x, Row& sorted);

private:
    void sort_digits(std::span<const double> x);

    Buffer<std::uint32_t> keys_, other_, counts_;
};

}  // namespace apscope::detail
