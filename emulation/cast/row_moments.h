// Sums of the moments of stochastic rounding (core/stochastic_moments.h) over several rows, element
// by element.
#pragma once

#include <cstddef>

#include "core/rounding.h"

namespace apscope::detail {

// Adds the bias and the variance of rounding scale * row[i], in the cast's mode, to bias[i] and
// variance[i]. Returns false if a draw could overflow.
template <class Real>
bool add_moments(const Real* row, std::size_t count, double scale, const Cast<double>& cast,
                 double* bias, double* variance);

}  // namespace apscope::detail
