// A GPU thread's work in an all-reduce, run here on the CPU: every element has the bits of
// emulation/allreduce/reduce.h.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/named_formats.h"
#include "emulation/cuda/allreduce/reduce_choice.h"
#include "tests/support/cuda_inputs.h"

namespace apscope::detail {
namespace {

std::vector<double> step_by_step(const std::vector<float>& in, std::size_t workers,
                                 const FloatFormat& format, const AllReduceOptions& options,
                                 const ReduceScale& scale = {}) {
    std::vector<double> out(in.size() / workers, -1.0);
    for (ReduceChunk& chunk :
         reduce_chunks(in.data(), workers, out.data(), out.size(), format, options, scale)) {
        chunk.task.hops.instructions = chunk.program.data();
        chunk.with_step([](const auto& step) { run_on_cpu(step); });
    }
    return out;
}

void expect_rows(const std::vector<float>& in, std::size_t workers, const FloatFormat& format,
                 const AllReduceOptions& options) {
    std::vector<double> expected(in.size() / workers);
    all_reduce(in, workers, expected, format, options);
    EXPECT_EQ(differing(expected, step_by_step(in, workers, format, options)), 0u)
        << format.name() << " " << options.topology.name() << " workers=" << workers << " "
        << to_string(options.projection.rounding);
}

TEST(CudaReduce, EveryTopologyAndMode) {
    for (std::string name : topology_names()) {
        if (const std::size_t g = name.find(":G"); g != name.npos) name.replace(g, 2, ":3");
        if (!parse_topology(name).is_plain()) {
            AllReduceOptions options;
            options.topology = parse_topology(name);
            EXPECT_THROW(step_by_step(random_floats(8, 9, 5), 2, parse_format("e4m3"), options),
                         std::invalid_argument)
                << name;
            continue;
        }
        for (const std::size_t workers : {1u, 2u, 3u, 5u, 8u, 13u}) {
            for (int mode = 0; mode < rounding_mode_count; ++mode) {
                AllReduceOptions options;
                options.topology = parse_topology(name);
                options.projection.rounding = static_cast<RoundingMode>(mode);
                options.seed = 11;
                if (options.projection.rounding == RoundingMode::stochastic_exact) continue;
                for (const char* format : {"e4m3", "e5m2", "bf16"}) {
                    expect_rows(random_floats(workers * 61, 9, 5), workers, parse_format(format),
                                options);
                }
            }
        }
    }
}

TEST(CudaReduce, AnotherAccumulatorOtherHopsWideDrawsAndSpecialValues) {
    std::vector<float> in = random_floats(8 * 200, 20, 6);
    for (std::size_t i = 0; i < in.size(); i += 7)
        in[i] = edge_inputs()[i * 79 % edge_inputs().size()];
    for (const char* name : {"sequential", "ring", "tree", "hierarchical:4+kahan"}) {
        AllReduceOptions options;
        options.topology = parse_topology(name);
        expect_rows(in, 8, parse_format("e5m2"), options);
        options.accumulate = parse_format("fp16");
        expect_rows(in, 8, parse_format("e5m2"), options);
        options.hop_rounding = RoundingMode::stochastic;
        options.projection.random_bits = 60;  // sums on wide numbers
        expect_rows(in, 8, parse_format("e5m2"), options);
        options.input_cast = false;
        options.projection.overflow = Overflow::saturate;
        expect_rows(in, 8, parse_format("e5m2"), options);
    }
}

TEST(CudaReduce, ManyWorkersNeedFewSlots) {
    for (const char* name :
         {"sequential", "ring", "tree", "hierarchical:8", "hierarchical:1", "sequential+kahan"}) {
        for (const int workers : {1, 2, 31, 64, 257, 1024}) {
            const Topology topology = parse_topology(name);
            for (int chunk = 0; chunk < std::min(2, chunk_count(topology, workers)); ++chunk) {
                const HopProgram program = hop_program(reduction_program(topology, workers, chunk),
                                                       workers, HopOrder::deeper_first);
                int leaves = 0, kept = 0;
                for (const HopInstruction& i : program.instructions) {
                    leaves += (i.target >= 0) + (i.source >= 0);
                    kept +=
                        (i.keep >= 0) - (i.target < operand_before) - (i.source < operand_before);
                }
                EXPECT_EQ(leaves, workers == 1 ? 0 : workers) << name;
                EXPECT_EQ(kept, 0) << name;
                EXPECT_EQ(program.result, workers == 1 ? 0 : operand_before) << name;
                EXPECT_LE(program.slots, static_cast<int>(std::log2(workers))) << name;
            }
        }
    }
    AllReduceOptions options;
    options.topology = parse_topology("tree");
    expect_rows(random_floats(1024 * 3, 4, 8), 1024, parse_format("e5m2"), options);
}

TEST(CudaReduce, ScalesGoInAndOut) {
    const std::vector<float> in = random_floats(4 * 500, 6, 3);
    const FloatFormat format = parse_format("e4m3");
    AllReduceOptions options;
    options.topology = parse_topology("ring");
    const RowCast cast(format, options.projection),
        accumulator = make_accumulator(format, options.projection);
    for (const double scale : {1.0, 0.25, 3.5}) {
        std::vector<std::vector<double>> rows(4, std::vector<double>(500));
        std::vector<const double*> pointers;
        for (std::size_t w = 0; w < 4; ++w) {
            encode_row(std::span(in).subspan(w * 500, 500), rows[w].data(), scale, cast,
                       seed_key(0), static_cast<std::uint32_t>(w), 0);
            pointers.push_back(rows[w].data());
        }
        std::vector<double> expected(500);
        ReduceScratch<double> scratch;
        reduce(options.topology, pointers, 0, 500, 500, accumulator, seed_key(0), expected,
               scratch);
        for (double& sum : expected) sum = sum / scale / 4.0;
        EXPECT_EQ(differing(expected, step_by_step(in, 4, format, options, {scale, 4.0})), 0u)
            << scale;
    }
}

}  // namespace
}  // namespace apscope::detail
