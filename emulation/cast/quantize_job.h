// The data for rounding an array in pieces, and the functions that round a piece.
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

// Rounds elements begin .. begin + count - 1 of an array; `in` and `out` point to element `begin`.
template <class Real>
void quantize_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin,
                    std::size_t count);

// Does the same as quantize_piece(), for arrays that are too large for the caches
// (streamed_piece.cpp).
template <class Real>
void streamed_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin,
                    std::size_t count);

// Does the work of quantize_piece() for stochastic modes (stochastic_loops.h).
template <class Real>
void stochastic_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin,
                      std::size_t count);

}  // namespace apscope::detail
