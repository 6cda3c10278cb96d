// Stochastic rounding over fp32 arrays.
#include "emulation/cast/stochastic_loops.h"

namespace apscope::detail {

template <>
void stochastic_piece(const QuantizeJob<float>& job, const float* in, float* out, std::size_t begin,
                      std::size_t count) {
    stochastic_piece_loop(job, in, out, begin, count);
}

}  // namespace apscope::detail
