// The moments of stochastic rounding of rows (core/stochastic_moments.h), added up element by
// element.
#pragma once

#include <cstddef>

#include "core/rounding.h"

namespace apscope::detail {

// bias[i] and variance[i] += those of rounding scale row[i], in the cast's mode. False if a draw
// could overflow.
template <class Real>
bool add_moments(const Real* row, std::size_t count, double scale, const Cast<double>& cast,
                 double* bias, double* variance);

}  // namespace apscope::detail
