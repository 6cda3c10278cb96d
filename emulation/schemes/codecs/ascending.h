// fp32 numbers in ascending order, by the digits of their bits: no comparisons, whose branches nothing predicts.
#pragma once

#include <cstdint>
#include <span>

#include "emulation/schemes/tensor_scheme.h"

namespace apscope::detail {

class AscendingSort {
public:
    // x: numbers that fp32 holds, none NaN. -0 counts and comes out as 0.
    void sort(std::span<const double> x, Row& sorted);

private:
    Buffer<std::uint32_t> keys_, other_, counts_;
};

}  // namespace apscope::detail
