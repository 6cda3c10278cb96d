#include "emulation/cuda/allreduce/phases_choice.h"
#include "emulation/cuda/machine/launch.h"

namespace apscope::detail {

void add_messages_on_device(const float* rows, std::size_t n,
                            std::span<const PhaseEncoding> encodings, PhiloxKey key, float* sums,
                            cudaStream_t stream) {
    with_message_steps(rows, n, encodings, key, sums,
                       [&](const auto& step) { launch(step, stream); });
}

void encode_sums_on_device(const float* sums, std::size_t n, int workers,
                           std::span<const PhaseEncoding> encodings, PhiloxKey key, double divisor,
                           float* out, cudaStream_t stream) {
    with_sum_steps(sums, n, workers, encodings, key, divisor, out,
                   [&](const auto& step) { launch(step, stream); });
}

}  // namespace apscope::detail
