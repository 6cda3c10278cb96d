// The loops of quantize() over fp32 arrays.
#include "emulation/cast/quantize_loops.h"

namespace apscope::detail {

template <>
void quantize_piece(const QuantizeJob<float>& job, const float* in, float* out, std::size_t begin,
                    std::size_t count) {
    quantize_piece_loop(job, in, out, begin, count);
}

}  // namespace apscope::detail
