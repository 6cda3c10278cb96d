// CPD's matrix product: the products are added in the order of k by Kahan's summation in fp32, and
// CPD's cast Q (cpd_cast.h) rounds the result of every operation:
//
//      p = Q(a b)
//      y = Q(p - c)
//      t = Q(s + y)
//      c = Q(Q(t - s) - y)
//      s = t
//
// CPD's kernel leaves c undefined in an incomplete last block of 16 rows; here c starts at 0 there
// too.
#pragma once

#include <cstddef>
#include <span>

namespace apscope::detail {

// out (m x n) = a (m x k) b (k x n), in C order. With 8 exponent and 23 mantissa bits there is no
// cast.
void cpd_gemm(std::span<const float> a, std::span<const float> b, std::span<float> out,
              std::size_t m, std::size_t k, std::size_t n, int exponent_bits, int mantissa_bits,
              int threads);

}  // namespace apscope::detail
