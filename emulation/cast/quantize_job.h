// One array's cast as its pieces need it, and the calls that run a piece.
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

// `in` and `out` point to elements begin .. begin + count - 1 of a whole array.
template <class Real>
void quantize_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin,
                    std::size_t count);

// The same where `out` is too large for the caches (streamed_piece.cpp).
template <class Real>
void streamed_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin,
                    std::size_t count);

// The same for stochastic modes (stochastic_loops.h), where quantize_piece() takes them.
template <class Real>
void stochastic_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin,
                      std::size_t count);

}  // namespace apscope::detail
