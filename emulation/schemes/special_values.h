// Gradients as rows of fp64 numbers, and the elements that are not finite beside them: those bypass
// a scheme, in which they count as 0, and are put into its results; a float grid rounds them
// (SchemeParts::rounds_special).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

struct SpecialValue {
    std::size_t worker, element;  // of the rows at hand
    double value;
    double intended = 0.0;  // the value that the scheme sees instead
};

// out = gradients, with 0 where one is not finite; false if one was not.
bool widen_finite(std::span<const float> gradients, std::span<double> out);
// The same, or what is there where `sees_special`; adds to `special` what was left out.
void widen_gradients(std::span<const float> gradients, bool sees_special, std::size_t worker,
                     std::span<double> out, std::vector<SpecialValue>& special);

// Puts them into messages and sums, in rank order: what is not finite swallows the sum it enters.
void restore(std::span<const SpecialValue> special, Exchange& e);

}  // namespace apscope::detail
