// The orthonormal Walsh-Hadamard transform of a power-of-two length. Applied twice, it returns the
// row, except for rounding. It consists of butterflies in a fixed order, and one multiplication at
// the end.
#pragma once

#include <cstddef>
#include <span>

namespace apscope::detail {

// Transforms every run of `length` elements, a power of two that divides x.size().
void hadamard(std::span<double> x, std::size_t length);

}  // namespace apscope::detail
