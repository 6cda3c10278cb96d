// The Walsh-Hadamard transform of a power-of-two length, orthonormal: applied twice it gives back
// the row, to rounding. Butterflies in a fixed order, then one multiplication.
#pragma once

#include <cstddef>
#include <span>

namespace apscope::detail {

// Of every run of `length` elements, a power of two that divides x.size().
void hadamard(std::span<double> x, std::size_t length);

}  // namespace apscope::detail
