// Any scheme as a TensorScheme, for combinators and apscope.exchange. A scheme that
// scales and rounds to a float grid takes its statistics from the rows it is given.
#pragma once

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

TensorScheme as_tensor_scheme(const FloatScheme& scheme);
// Throws std::invalid_argument for a policy, whose branches are schemes of their own.
TensorScheme as_tensor_scheme(const Scheme& scheme);
// The same for a combinator that works on one tensor at a time. Also throws for a scheme whose
// scales apply to several tensors.
TensorScheme inner_tensor_scheme(const Scheme& scheme);

// The smallest fp32 number that is not below, at most the largest: the amax of rows that were
// compensated or transformed, which need not be fp32 numbers.
double fp32_bound(double amax);

}  // namespace apscope::detail
