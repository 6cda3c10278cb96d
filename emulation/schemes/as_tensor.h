// Any scheme as a TensorScheme: what combinators wrap and what apscope.exchange runs. A scheme that
// scales and rounds to a float grid takes its statistics from the rows it is given.
#pragma once

#include "emulation/schemes/scheme.h"
#include "emulation/schemes/tensor_scheme.h"

namespace apscope::detail {

// Throws std::invalid_argument for a policy, whose branches are schemes of their own.
TensorScheme as_tensor_scheme(const Scheme& scheme);

}  // namespace apscope::detail
