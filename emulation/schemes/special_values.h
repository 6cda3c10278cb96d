// Gradients as rows of fp64 numbers, with a separate list of the elements that are not finite. A
// scheme gets 0 in place of these elements, which are then written into the scheme's results. A
// float grid rounds them instead (rounds_special).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

struct SpecialValue {
    std::size_t worker, element;  // indices in the current rows
    double value;
    double intended = 0.0;  // the value that the scheme sees instead
};

// out = gradients, with 0 for elements that are not finite; false if there was one.
bool widen_finite(std::span<const float> gradients, std::span<double> out);
// Does the same and appends the omitted elements to `special`; with `sees_special`, copies all
// elements unchanged instead.
void widen_gradients(std::span<const float> gradients, bool sees_special, std::size_t worker,
                     std::span<double> out, std::vector<SpecialValue>& special);

// Writes these values into the messages and adds them to the sums, in rank order: a sum with such
// an element is not finite.
void restore(std::span<const SpecialValue> special, Exchange& e);

}  // namespace apscope::detail
