// Shannon's lower bound on the mean squared error of any code with R bits per value, for one given
// set of values (docs/limit.md has the proof):
//
//      h(w)    the differential entropy, in bits, of z + U: z one of the n values, each with
//              probability 1/n, U uniform on (-w/2, w/2)
//      N(w)    2^(2 h(w)) / (2 pi e), the entropy power
//      L(R)    max over w of (N(w) 4^-R - w^2 / 12), at least 0
//
// The density of z + U is piecewise constant: between two neighbours of the 2n numbers z_i - w/2
// and z_i + w/2, c of the intervals (z_i - w/2, z_i + w/2) overlap, and the density is c / (n w).
// So h(w) is a finite sum, without an estimate:
//
//      h(w) = sum over j of l_j (c_j / (n w)) log2(n w / c_j)        l_j the length of interval j
//
// The sums have the shape of core/fixed_shape_sum.h, over the intervals in ascending order; every
// width has its own sum. So neither threads nor instruction sets change a bit.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace apscope::detail {

// The widths w that are tried: 2^(j/2), for j = -24 to 4.
std::vector<double> blur_widths();

// h(w) for every width; values are finite. Throws std::invalid_argument without widths, and for a
// width that is not positive and finite.
std::vector<double> blurred_entropies(std::span<const double> values,
                                      std::span<const double> widths, int threads);

// L(R) for R = bits; NaN if there are no widths.
double rate_limit(std::span<const double> entropies, std::span<const double> widths, double bits);

// The sum of x^2 over every `block` consecutive elements; the last block may be shorter. An element
// that is not finite adds nothing.
std::vector<double> block_squares(std::span<const double> x, std::size_t block);

}  // namespace apscope::detail
