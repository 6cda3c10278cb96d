#include "emulation/cuda/allreduce/reduce_choice.h"
#include "emulation/cuda/machine/device_memory.h"
#include "emulation/cuda/machine/launch.h"

namespace apscope::detail {

void all_reduce_on_device(const float* in, std::size_t workers, double* out, std::size_t n,
                          const FloatFormat& format, const AllReduceOptions& options,
                          const ReduceScale& scale, cudaStream_t stream) {
    std::vector<ReduceChunk> chunks = reduce_chunks(in, workers, out, n, format, options, scale);
    std::vector<HopInstruction> programs;
    for (const ReduceChunk& chunk : chunks)
        programs.insert(programs.end(), chunk.program.begin(), chunk.program.end());
    const DeviceMemory<HopInstruction> memory(programs, stream);
    const HopInstruction* program = memory.get();
    for (ReduceChunk& chunk : chunks) {
        chunk.task.hops.instructions = program;
        program += chunk.program.size();
        chunk.with_step([&](const auto& step) { launch(step, stream); });
    }
}

}  // namespace apscope::detail
