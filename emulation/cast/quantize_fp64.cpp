// The loops of quantize() over fp64 arrays.
#include "emulation/cast/quantize_loops.h"

namespace apscope::detail {

template <>
void quantize_piece(const QuantizeJob<double>& job, const double* in, double* out,
                    std::size_t begin, std::size_t count) {
    quantize_piece_loop(job, in, out, begin, count);
}

}  // namespace apscope::detail
