// Any scheme as a TensorScheme: what combinators wrap and what apscope.exchange runs. A scheme that
// scales and rounds to a float grid takes its statistics from the rows it is given.
#pragma once

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

TensorScheme as_tensor_scheme(const FloatScheme& scheme);
// Throws std::invalid_argument for a policy, whose branches are schemes of their own.
TensorScheme as_tensor_scheme(const Scheme& scheme);
// The same for what works on one tensor at a time around it. Throws for a scheme whose scales serve
// several tensors, too.
TensorScheme inner_tensor_scheme(const Scheme& scheme);

// The smallest fp32 number that is not below, at most the largest: the amax of rows that were
// compensated or transformed, which need not be fp32 numbers.
double fp32_bound(double amax);

}  // namespace apscope::detail
