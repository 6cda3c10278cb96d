// quantize() over one piece of an array that the caches do not hold: rounded in the first level of them, then streamed
// to memory.
#include <algorithm>

#include "emulation/cast/quantize_job.h"
#include "emulation/machine/streaming.h"

namespace apscope::detail {

template <class Real>
void streamed_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin, std::size_t count) {
    constexpr std::size_t step = 2048;
    alignas(64) Real rounded[step];
    for (std::size_t i = 0; i < count; i += step) {
        const std::size_t n = std::min(step, count - i);
        quantize_piece<Real>(job, in + i, rounded, begin + i, n);
        copy_streaming(rounded, out + i, n * sizeof(Real));
    }
    finish_streaming();
}
template void streamed_piece(const QuantizeJob<float>&, const float*, float*, std::size_t, std::size_t);
template void streamed_piece(const QuantizeJob<double>&, const double*, double*, std::size_t, std::size_t);

}  // namespace apscope::detail
