// Makes the steps of an all-reduce, one per chunk, and the programs of the steps. Host only.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulation/cuda/allreduce/reduce_cuda.h"
#include "emulation/cuda/allreduce/reduce_step.h"

namespace apscope::detail {

struct ReduceChunk {
    ReduceTask task;  // complete except for the device address of its program
    std::vector<HopInstruction> program;
    bool stores = false;  // the program stores partial sums

    // Calls f with the step.
    template <class F>
    void with_step(const F& f) const {
        if (stores) f(ReduceStep<true>{task});
        else f(ReduceStep<false>{task});
    }
};

inline std::vector<ReduceChunk> reduce_chunks(const float* in, std::size_t workers, double* out,
                                              std::size_t n, const FloatFormat& format,
                                              const AllReduceOptions& options,
                                              const ReduceScale& scale) {
    if (!options.topology.is_plain())
        throw std::invalid_argument("topology=" + options.topology.name() +
                                    " is not supported on a GPU; use the CPU, or one of "
                                    "sequential, ring, tree, hierarchical:G and butterfly");
    const HopTarget hops = checked_hops(workers, format, options);
    const Cast<double> accumulator = make_accumulator(hops.format, hops.projection).cast();
    int exponent = 0;
    const bool power_of_two = std::frexp(scale.scale, &exponent) == 0.5;

    const int count = static_cast<int>(workers);
    std::vector<ReduceChunk> chunks;
    for (int chunk = 0; chunk < chunk_count(options.topology, count); ++chunk) {
        ReduceTask task{
            in,
            n,
            count,
            chunk_begin(options.topology, count, chunk, n),
            chunk_begin(options.topology, count, chunk + 1, n),
            out,
            options.input_cast,
            scale.scale,
            power_of_two ? 1.0 / scale.scale : 0.0,
            scale.divisor,
            make_cast<double>(format, options.projection),
            seed_key(options.seed),
            {{accumulator, seed_key(options.seed)}, options.topology.kahan, nullptr, 0, 0}};
        if (task.first == task.last) continue;
        HopProgram program;
        if (options.topology.kind != Topology::Kind::exact) {
            program = hop_program(reduction_program(options.topology, count, chunk), count,
                                  HopOrder::deeper_first);
        }
        if (program.slots > reduce_slots) {
            throw std::invalid_argument(
                std::to_string(workers) +
                " workers are more than a GPU thread keeps partial sums for; use at most 65536");
        }
        task.hops.count = static_cast<int>(program.instructions.size());
        task.hops.result = program.result;
        chunks.push_back({task, std::move(program.instructions), program.slots > 0});
    }
    return chunks;
}

}  // namespace apscope::detail
