#include "emulation/cuda/allreduce/reduce_choice.h"
#include "emulation/cuda/machine/device_memory.h"
#include "emulation/cuda/machine/launch.h"

namespace apscope::detail {

void all_reduce_on_device(const float* in, std::size_t workers, double* out, std::size_t n,
                          const FloatFormat& format, const AllReduceOptions& options,
                          const ReduceScale& scale, cudaStream_t stream) {
    ReducePlan plan = reduce_plan(in, workers, out, n, format, options, scale);
    if (n == 0) return;
    const DeviceMemory<StackInstruction> program(plan.program.instructions, stream);
    plan.task.instructions = program.get();
    plan.with_step([&](const auto& step) { launch(step, stream); });
}

}  // namespace apscope::detail
