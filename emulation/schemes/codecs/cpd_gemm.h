// CPD's matrix product: Kahan's sum over k, in order, in fp32. Q, CPD's cast (cpd_cast.h), rounds
// the result of every operation:
//
//      p = Q(a b)
//      y = Q(p - c)
//      t = Q(s + y)
//      c = Q(Q(t - s) - y)
//      s = t
//
// CPD's kernel leaves c undefined in the last incomplete block of 16 rows; here c is 0 there.
#pragma once

#include <cstddef>
#include <span>

namespace apscope::detail {

// out (m x n) = a (m x k) b (k x n), in C order. The format (8, 23) has no cast.
void cpd_gemm(std::span<const float> a, std::span<const float> b, std::span<float> out,
              std::size_t m, std::size_t k, std::size_t n, int exponent_bits, int mantissa_bits,
              int threads);

}  // namespace apscope::detail
