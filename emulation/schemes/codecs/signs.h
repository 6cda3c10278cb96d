// Signs under one scale: one bit per element, including zeros. (A codebook of -1 and 1 would take a
// negative number far below the scale for the tie between the two.)
#pragma once

#include <span>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

enum class SignScale { l1, l2, one };  // sum of abs / length, sqrt(sum of squares / length), 1

// An fp32 number, at most the largest; 0 for a row of zeros. Fixed-shape sums
// (core/fixed_shape_sum.h). `length` counts padding: zeros behind the row.
double sign_scale(const RowReader& x, SignScale rule, std::size_t length);

// The smallest multiple of W lcm(W, 8) that holds n elements: W chunks of whole bytes. (DeepSpeed)
std::size_t padded_length(std::size_t n, std::size_t workers);

// values = scale where x >= 0 (-0 too), else -scale. The payload has a 1 for every x >= 0, and for
// each of the `padding` zeros behind.
void encode_signs(Message& m, std::span<const double> x, double scale, std::size_t padding,
                  bool packs);

}  // namespace apscope::detail
