#include "emulation/cuda/arithmetic/matmul_choice.h"
#include "emulation/cuda/machine/launch.h"

namespace apscope::detail {

void matmul_on_device(const float* a, const float* b, float* out, std::size_t batches,
                      std::size_t rows, std::size_t terms, std::size_t columns,
                      const SumOptions& options, cudaStream_t stream) {
    with_matmul_step(a, b, out, batches, rows, terms, columns, options,
                     [&](const auto& step) { launch(step, stream); });
}

}  // namespace apscope::detail
