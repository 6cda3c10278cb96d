// The steps of an all-reduce, one a chunk of equal program, and their programs. Host only.
#pragma once

#include <cmath>
#include <vector>

#include "emulation/cuda/allreduce/reduce_cuda.h"
#include "emulation/cuda/allreduce/stack_program.h"

namespace apscope::detail {

struct ReduceChunk {
    ReduceStep step;  // but for its program's place in memory
    std::vector<StackInstruction> program;
};

inline std::vector<ReduceChunk> reduce_chunks(const float* in, std::size_t workers, double* out, std::size_t n, const FloatFormat& format,
                                              const AllReduceOptions& options, const ReduceScale& scale) {
    const HopTarget hops = checked_hops(workers, format, options);
    const Accumulator accumulator = make_accumulator(hops.format, hops.projection);
    int exponent = 0;
    const bool power_of_two = std::frexp(scale.scale, &exponent) == 0.5;

    const int count = static_cast<int>(workers);
    std::vector<ReduceChunk> chunks;
    for (int chunk = 0; chunk < chunk_count(options.topology, count); ++chunk) {
        ReduceStep step{in, n, count, chunk_begin(options.topology, count, chunk, n), chunk_begin(options.topology, count, chunk + 1, n), out,
                        options.input_cast, scale.scale, power_of_two ? 1.0 / scale.scale : 0.0, scale.divisor,
                        make_cast<double>(format, options.projection), accumulator.cast, options.projection.rounding, accumulator.rounding,
                        seed_key(options.seed), nullptr, 0, options.topology.kahan};
        if (step.first == step.last) continue;
        std::vector<StackInstruction> program;
        if (options.topology.kind != Topology::Kind::exact) program = stack_program(reduction_program(options.topology, count, chunk), count);
        step.instructions = static_cast<int>(program.size());
        chunks.push_back({step, std::move(program)});
    }
    return chunks;
}

}  // namespace apscope::detail
