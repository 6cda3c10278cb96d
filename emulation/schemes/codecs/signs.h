// Signs under one scale: one bit per element, including zeros. (In a codebook of -1 and 1, a
// negative number far below the scale would be a tie.)
#pragma once

#include <span>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

enum class SignScale { l1, l2, one };  // sum of abs / length, sqrt(sum of squares / length), 1

// The scale, an fp32 number, at most the largest; 0 for a row of zeros. Sums have the shape of
// core/fixed_shape_sum.h. `length` includes padding: zeros after the row.
double sign_scale(const RowReader& x, SignScale rule, std::size_t length);

// The smallest multiple of W lcm(W, 8) that is at least n, so that W chunks have whole bytes
// (DeepSpeed).
std::size_t padded_length(std::size_t n, std::size_t workers);

// values = scale where x >= 0 (also for -0), otherwise -scale. The payload has a 1 for every x >=
// 0, and for each of the `padding` zeros after the row.
void encode_signs(Message& m, std::span<const double> x, double scale, std::size_t padding,
                  bool packs);

}  // namespace apscope::detail
