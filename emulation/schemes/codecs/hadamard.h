// The orthonormal Walsh-Hadamard transform of a power-of-two length: applied twice it gives the row
// again, except for rounding. Butterflies in a fixed order, then one multiplication.
#pragma once

#include <cstddef>
#include <span>

namespace apscope::detail {

// Transforms every run of `length` elements, a power of two that divides x.size().
void hadamard(std::span<double> x, std::size_t length);

}  // namespace apscope::detail
