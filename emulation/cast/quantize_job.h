// One array's cast as its pieces need it, and the calls that run a piece.
#pragma once

#include "emulation/cast/quantize.h"
#include "emulation/cast/quantize_split.h"

namespace apscope::detail {

template <class Real>
struct QuantizeJob {
    Cast<Real> cast;
    RoundingMode mode;
    QuantizePath path;
    RandomStream stream;
    RandomSource random;
    SplitCast split;  // fp32 and QuantizePath::split only
};

// `in` and `out` point to elements begin .. begin + count - 1 of a whole array.
template <class Real>
void quantize_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin, std::size_t count);

// The same for stochastic modes (stochastic_loops.h), where quantize_piece() takes them.
template <class Real>
void stochastic_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin, std::size_t count);

}  // namespace apscope::detail
