// Signs times one scale: one bit per element, and zeros have a sign too. (In a codebook of -1 and
// 1, a negative number much smaller than the scale would count as a tie.)
#pragma once

#include <span>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// l1: sum of abs / length; l2: sqrt(sum of squares / length); one: 1.
enum class SignScale { l1, l2, one };

// The scale, rounded to a finite fp32 number; with l1 and l2, 0 for a row of zeros. Sums are added
// in the order of core/fixed_shape_sum.h. `length` is the length of the row plus padding, which
// consists of zeros after the row.
double sign_scale(const RowReader& x, SignScale rule, std::size_t length);

// The smallest multiple of W lcm(W, 8) that is at least n, so that each of W chunks of bits is a
// number of complete bytes, as in DeepSpeed.
std::size_t padded_length(std::size_t n, std::size_t workers);

// The values are `scale` where x >= 0 (also for -0), otherwise -scale. The payload has a bit 1 for
// every x >= 0 and for each of the `padding` zeros after the row.
void encode_signs(Message& m, std::span<const double> x, double scale, std::size_t padding,
                  bool packs);

}  // namespace apscope::detail
