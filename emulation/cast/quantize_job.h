// The data that the pieces of one array need to be rounded, and the functions that round a piece.
#pragma once

#include "emulation/cast/cast_plan.h"
#include "emulation/cast/quantize.h"

namespace apscope::detail {

template <class Real>
struct QuantizeJob {
    CastPlan<Real> plan;
    RandomStream stream;
    RandomSource random;
};

// Rounds elements begin .. begin + count - 1 of an array; `in` and `out` point to the first of
// them.
template <class Real>
void quantize_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin,
                    std::size_t count);

// Does the same as quantize_piece() for an `out` that is too large for the caches
// (streamed_piece.cpp).
template <class Real>
void streamed_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin,
                    std::size_t count);

// Does the same as quantize_piece(), which calls it, for stochastic modes (stochastic_loops.h).
template <class Real>
void stochastic_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin,
                      std::size_t count);

}  // namespace apscope::detail
