#include "emulation/cuda/arithmetic/matmul_cuda.h"
#include "emulation/cuda/arithmetic/tile_choice.h"
#include "emulation/cuda/machine/launch.h"

namespace apscope::detail {

bool matmul_tiles_on_device(const float* a, const float* b, float* out, std::size_t batches,
                            std::size_t rows, std::size_t terms, std::size_t columns,
                            const SumOptions& options, cudaStream_t stream) {
    return with_matmul_tile(a, b, out, batches, rows, terms, columns,
                            prefers_tall_tiles(batches, rows, columns), options,
                            [&](const auto& step) { launch(step, stream); });
}

}  // namespace apscope::detail
