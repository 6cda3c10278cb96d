#include <stdexcept>
#include <string>

#include "emulation/cast/code_types.h"
#include "emulation/cuda/cast/quantize_cuda.h"
#include "emulation/cuda/cast/quantize_step.h"
#include "emulation/cuda/cast/step_choice.h"
#include "emulation/cuda/machine/first_index.h"
#include "emulation/cuda/machine/launch.h"

namespace apscope::detail {

namespace {

template <class Real>
void encode_array(const Real* in, void* out, int code_bytes, std::size_t n,
                  const FloatFormat& format, const Projection& projection,
                  std::optional<std::uint64_t> nan_code, std::uint64_t seed, cudaStream_t stream) {
    validate(projection, format);
    if constexpr (std::is_same_v<Real, float>) require_fp32(format, "an array of fp32 numbers");
    const int bits = format.storage_bits();
    if (bits > code_bytes * 8) {
        throw std::invalid_argument(format.name() + " codes have " + std::to_string(bits) +
                                    " bits, more than the output's " +
                                    std::to_string(code_bytes * 8));
    }
    if (nan_code && bits < 64 && *nan_code >> bits != 0) {
        throw std::invalid_argument("nan=" + std::to_string(*nan_code) + " is not a code of " +
                                    format.name() + ", which has " + std::to_string(bits) +
                                    " bits");
    }
    const FirstIndex nan_at(!nan_code && !format.has_nan(), stream);
    with_encode_step<Real>({in, out, code_bytes, n, nan_code, nan_at.get()}, format, projection,
                           seed, [&](const auto& step) { launch(step, stream); });
    if (const auto index = nan_at.read()) {
        throw std::invalid_argument("element " + std::to_string(*index) + " is NaN, which " +
                                    format.name() +
                                    " does not have; give nan= a code to use instead");
    }
}

}  // namespace

template <class Real, class Code>
void encode_on_device(const Real* in, Code* out, std::size_t n, const FloatFormat& format,
                      const Projection& projection, std::optional<std::uint64_t> nan_code,
                      std::uint64_t seed, cudaStream_t stream) {
    encode_array(in, out, sizeof(Code), n, format, projection, nan_code, seed, stream);
}

template <class Code, class Real>
void decode_on_device(const Code* in, Real* out, std::size_t n, const FloatFormat& format,
                      bool keep_payload, cudaStream_t stream) {
    if constexpr (std::is_same_v<Real, float>) require_fp32(format, "an array of fp32 numbers");
    const int bits = format.storage_bits();
    const FirstIndex wide_at(bits < static_cast<int>(sizeof(Code) * 8), stream);
    with_decode_step(in, out, n, format, keep_payload, wide_at.get(),
                     [&](const auto& step) { launch(step, stream); });
    if (const auto index = wide_at.read()) {
        throw std::invalid_argument("the code of element " + std::to_string(*index) +
                                    " is wider than " + format.name() + ", which has " +
                                    std::to_string(bits) + " bits");
    }
}

#define APSCOPE_CODES(Real, Code)                                               \
    template void encode_on_device<Real, Code>(                                 \
        const Real*, Code*, std::size_t, const FloatFormat&, const Projection&, \
        std::optional<std::uint64_t>, std::uint64_t, cudaStream_t);             \
    template void decode_on_device<Code, Real>(const Code*, Real*, std::size_t, \
                                               const FloatFormat&, bool, cudaStream_t);
APSCOPE_FOR_CODE_TYPES(APSCOPE_CODES)
#undef APSCOPE_CODES

}  // namespace apscope::detail
