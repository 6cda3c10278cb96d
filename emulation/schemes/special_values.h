// Gradients as rows of fp64 numbers, with a separate list of the elements that are not finite. A
// scheme gets 0 in place of these elements, which are then written into the scheme's results. A
// scheme with `rounds_special` rounds them instead.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// An element of a gradient that is not finite.
struct SpecialValue {
    std::size_t worker, element;  // indices in the current rows
    double value;
    double intended = 0.0;  // the value that the scheme sees instead
};

// Copies gradients to `out`, with 0 in place of elements that are not finite. Returns false if
// there was such an element.
bool widen_finite(std::span<const float> gradients, std::span<double> out);
// Works like widen_finite(), and appends the elements that are not finite to `special`. With
// `sees_special`, copies all elements unchanged instead.
void widen_gradients(std::span<const float> gradients, bool sees_special, std::size_t worker,
                     std::span<double> out, std::vector<SpecialValue>& special);

// Writes these values into the messages and the intended rows, and adds them to the sums in rank
// order, so that a sum with such an element is not finite.
void restore(std::span<const SpecialValue> special, Exchange& e);

}  // namespace apscope::detail
