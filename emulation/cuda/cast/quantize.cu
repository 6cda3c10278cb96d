#include "emulation/cuda/cast/quantize_cuda.h"
#include "emulation/cuda/cast/quantize_step.h"
#include "emulation/cuda/cast/step_choice.h"
#include "emulation/cuda/machine/launch.h"

namespace apscope::detail {

namespace {

template <class Real>
void quantize_array(const Real* in, Real* out, std::size_t n, const FloatFormat& format,
                    const Projection& projection, std::uint64_t seed, cudaStream_t stream,
                    std::uint64_t first) {
    validate(projection, format);
    if constexpr (std::is_same_v<Real, float>) require_fp32(format, "an array of fp32 numbers");
    with_rounding<Real>(
        format, projection, seed, [&]<int Size, class Rounding>(const Rounding& rounding) {
            launch(QuantizeStep<Rounding, Size>{in, out, {n, first}, rounding}, stream);
        });
}

}  // namespace

void quantize_on_device(const float* in, float* out, std::size_t n, const FloatFormat& format,
                        const Projection& projection, std::uint64_t seed, cudaStream_t stream,
                        std::uint64_t first_element) {
    quantize_array(in, out, n, format, projection, seed, stream, first_element);
}
void quantize_on_device(const double* in, double* out, std::size_t n, const FloatFormat& format,
                        const Projection& projection, std::uint64_t seed, cudaStream_t stream,
                        std::uint64_t first_element) {
    quantize_array(in, out, n, format, projection, seed, stream, first_element);
}

}  // namespace apscope::detail
