#include "emulation/cuda/arithmetic/matmul_choice.h"
#include "emulation/cuda/cast/quantize_cuda.h"
#include "emulation/cuda/machine/first_index.h"
#include "emulation/cuda/machine/launch.h"

namespace apscope::detail {

void matmul_on_device(const float* a, const float* b, const float* c, float* out,
                      std::size_t batches, std::size_t rows, std::size_t terms, std::size_t columns,
                      const SumOptions& options, cudaStream_t stream) {
    const MatrixUnitOrder* const order = unit_order(options, c != nullptr, false);
    if (order == nullptr) {
        const bool has_result = make_matmul_rounders(options, terms).has_result;
        if (matmul_tiles_on_device(a, b, out, batches, rows, terms, columns, options, stream)) {
            if (has_result)
                quantize_on_device(out, out, batches * rows * columns, options.format,
                                   options.projection, options.seed, stream);
            return;
        }
        with_matmul_step(a, b, out, batches, rows, terms, columns, options,
                         [&](const auto& step) { launch(step, stream); });
        return;
    }
    const auto first_other = [&](const float* x, std::size_t size, const FloatFormat& format) {
        const FirstIndex first(true, stream);
        launch(find_other_number(x, size, format, first.get()), stream);
        return first.read();
    };
    const auto number = [&](const float* x, std::size_t index) {
        float value = 0;
        APSCOPE_CUDA(cudaMemcpy(&value, x + index, sizeof value, cudaMemcpyDeviceToHost));
        return value;
    };
    const auto range = [&](const float* x, std::size_t size) {
        const DeviceMemory<NumberRangeStep::Found> found(1, EveryByte{0}, stream);
        launch(NumberRangeStep{x, size, found.get()}, stream);
        return NumberRangeStep::range_of(found.read()[0]);
    };
    with_unit_step(a, b, c, out, batches, rows, terms, columns,
                   prefers_tall_tiles(batches, rows, columns), *order, first_other, number, range,
                   [&](const auto& step) { launch(step, stream); });
}

}  // namespace apscope::detail
