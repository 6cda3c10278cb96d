// A GPU thread's work in an all-reduce, run here on the CPU: every element has the bits of
// emulation/allreduce/reduce.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/named_formats.h"
#include "emulation/cuda/allreduce/hop_program.h"
#include "emulation/cuda/allreduce/reduce_choice.h"
#include "tests/support/cuda_inputs.h"

namespace apscope::detail {
namespace {

std::vector<double> step_by_step(const std::vector<float>& in, std::size_t workers,
                                 const FloatFormat& format, const AllReduceOptions& options,
                                 const ReduceScale& scale = {}) {
    std::vector<double> out(in.size() / workers, -1.0);
    ReducePlan plan =
        reduce_plan(in.data(), workers, out.data(), out.size(), format, options, scale);
    plan.task.instructions = plan.program.instructions.data();
    plan.with_step([](const auto& step) { run_on_cpu(step); });
    return out;
}

// The sign and payload of a NaN in the unrounded sums of `exact` are not defined.
std::vector<double> defined(std::vector<double> sums, const AllReduceOptions& options,
                            std::size_t workers) {
    if (options.topology.kind == Topology::Kind::exact && workers > 1) {
        for (double& sum : sums) {
            if (sum != sum) sum = std::numeric_limits<double>::quiet_NaN();
        }
    }
    return sums;
}

void expect_rows(const std::vector<float>& in, std::size_t workers, const FloatFormat& format,
                 const AllReduceOptions& options) {
    std::vector<double> expected(in.size() / workers);
    all_reduce(in, workers, expected, format, options);
    EXPECT_EQ(differing(defined(expected, options, workers),
                        defined(step_by_step(in, workers, format, options), options, workers)),
              0u)
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

// Rows in which an element has ordinary values and, in turn: a special or extreme value, zeros of
// both signs, zeros of one sign, values that cancel.
std::vector<float> mixed_rows(std::size_t workers, std::size_t n) {
    std::vector<float> in = random_floats(workers * n, 9, 4);
    const std::vector<float> special = [] {
        std::vector<float> values;
        for (const std::uint32_t bits :
             {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFC12345u, 0x7F812345u, 0xFF800001u,
              0x7F7FFFFFu, 0xFF7FFFFFu, 0x00000001u, 0x80000001u, 0x807FFFFFu})
            values.push_back(std::bit_cast<float>(bits));
        return values;
    }();
    for (std::size_t i = 0; i < n; ++i) {
        const auto at = [&](std::size_t w) -> float& { return in[w % workers * n + i]; };
        if (i % 7 == 1) at(i) = special[i / 7 % special.size()];
        if (i % 14 == 1) at(i + 1) = special[i / 14 * 5 % special.size()];
        if (i % 7 == 2) at(i * 3) = edge_inputs()[i * 1931 % edge_inputs().size()];
        for (std::size_t w = 0; w < workers; ++w) {
            if (i % 7 == 3) at(w) = (w + i / 7) % 3 == 0 ? 0.0f : -0.0f;
            if (i % 7 == 4) at(w) = -0x1p-40f;  // rounds to -0 in small formats
            if (i % 7 == 5 && w % 2 == 1) at(w) = -at(w - 1);
        }
    }
    return in;
}

TEST(CudaReduce, SpecialValuesInEveryFormatAndLength) {
    const std::vector<const char*> topologies{
        "exact",          "sequential",       "ring",
        "tree",           "butterfly",        "hierarchical:3",
        "hierarchical:8", "sequential+kahan", "hierarchical:3+kahan"};
    for (const char* name : {"e4m3", "e5m2", "e4m3fn", "fp16", "bf16", "e2m1", "e4m3fnuz", "e3m0",
                             "e8m0fn", "e4m3b5", "e5m3", "e8m3fn", "e4m3nosub", "tf32", "fp32"}) {
        const FloatFormat format = parse_format(name);
        for (const char* topology : topologies) {
            AllReduceOptions options;
            options.topology = parse_topology(topology);
            for (const std::size_t workers : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 64u, 65u}) {
                for (const std::size_t n : {1u, 3u, 4u, 62u, 64u, 131u}) {
                    if (workers > 9 && n > 64) continue;
                    expect_rows(mixed_rows(workers, n), workers, format, options);
                }
            }
        }
    }
}

TEST(CudaReduce, OtherModesAccumulatorsAndOverflows) {
    using enum RoundingMode;
    struct Case {
        const char *sent, *accumulate;
        RoundingMode wire, hop;
    };
    const std::vector<Case> cases{
        {"e4m3", "e4m3", toward_zero, toward_zero},
        {"e4m3", "e4m3", ties_to_away, ties_to_away},
        {"e4m3", "e4m3", toward_negative, toward_negative},
        {"e4m3", "e4m3", ties_to_even, toward_positive},
        {"e4m3", "e4m3", stochastic, ties_to_even},
        {"e4m3", "e4m3", ties_to_even, stochastic},
        {"e4m3", "e4m3", stochastic, stochastic},
        {"e5m2", "e5m2", stochastic_b, stochastic_c},
        {"e4m3", "bf16", stochastic_c, stochastic_b},
        {"e4m3fnuz", "e4m3", ties_to_even, ties_to_even},  // -0 only in the sums
        {"e4m3", "e4m3fnuz", ties_to_even, ties_to_even},
        {"e4m3", "fp16", ties_to_even, ties_to_even},
        {"e5m2", "fp32", toward_zero, ties_to_even},
        {"bf16", "fp32", ties_to_even, ties_to_even},
        {"bf16", "bf16", to_odd, ties_to_away},
        {"e2m1", "e4m3", away_from_zero, to_odd}};
    for (const Case& c : cases) {
        for (const char* topology : {"exact", "sequential", "ring", "tree", "butterfly",
                                     "hierarchical:4", "sequential+kahan"}) {
            for (const Overflow overflow : {Overflow::ieee, Overflow::saturate}) {
                AllReduceOptions options;
                options.topology = parse_topology(topology);
                options.accumulate = parse_format(c.accumulate);
                options.hop_rounding = c.hop;
                options.projection.rounding = c.wire;
                options.projection.overflow = overflow;
                options.seed = 3;
                for (const int random_bits : {12, 24, 32}) {
                    options.projection.random_bits = random_bits;
                    for (const std::size_t workers : {1u, 3u, 8u, 17u})
                        expect_rows(mixed_rows(workers, 141), workers, parse_format(c.sent),
                                    options);
                }
            }
        }
    }
}

// The usual formats and roundings are summed in fp32.
TEST(CudaReduce, SumsInFp32WhereTheHostDoes) {
    const auto plan = [](const char* format, const char* topology, RoundingMode mode) {
        AllReduceOptions options;
        options.topology = parse_topology(topology);
        options.projection.rounding = mode;
        return reduce_plan(nullptr, 8, nullptr, 0, parse_format(format), options, {});
    };
    for (const char* format : {"e4m3", "e5m2", "e4m3fn", "e2m1", "fp16", "bf16", "fp32"}) {
        for (const char* topology :
             {"sequential", "ring", "tree", "butterfly", "hierarchical:4+kahan"}) {
            const ReducePlan p = plan(format, topology, RoundingMode::ties_to_even);
            EXPECT_TRUE(p.narrow && p.narrow->steps()) << format << " " << topology;
        }
    }
    EXPECT_TRUE(plan("e4m3", "ring", RoundingMode::toward_zero).narrow);
    EXPECT_TRUE(plan("e4m3", "tree", RoundingMode::stochastic).narrow);
    EXPECT_TRUE(plan("e4m3", "exact", RoundingMode::stochastic).narrow);
    EXPECT_TRUE(plan("e4m3", "ring", RoundingMode::stochastic_b).narrow);
    EXPECT_FALSE(plan("e4m3", "ring", RoundingMode::toward_negative).narrow);
    EXPECT_FALSE(plan("fp64", "ring", RoundingMode::ties_to_even).narrow);
}

TEST(CudaReduce, ValuesAndResultsAtAnyAddress) {
    AllReduceOptions options;
    options.topology = parse_topology("ring");
    const FloatFormat format = parse_format("e4m3");
    constexpr std::size_t workers = 5, n = 44;
    const std::vector<float> in = mixed_rows(workers, n);
    std::vector<double> expected(n);
    all_reduce(in, workers, expected, format, options);
    for (std::size_t offset = 0; offset < 4; ++offset) {
        std::vector<float> moved(offset, 7.0f);
        moved.insert(moved.end(), in.begin(), in.end());
        std::vector<double> out(n + offset + 1, -1.0);
        ReducePlan plan = reduce_plan(moved.data() + offset, workers, out.data() + offset, n,
                                      format, options, {});
        plan.task.instructions = plan.program.instructions.data();
        plan.with_step([](const auto& step) { run_on_cpu(step); });
        EXPECT_EQ(out.back(), -1.0);
        out.pop_back();
        out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(offset));
        EXPECT_EQ(differing(expected, out), 0u) << offset;
    }
}

TEST(CudaReduce, ManyWorkersNeedAShallowStack) {
    for (const char* name : {"sequential", "ring", "tree", "butterfly", "hierarchical:8",
                             "hierarchical:1", "sequential+kahan"}) {
        for (const int workers : {1, 2, 31, 64, 257, 1024}) {
            const StackProgram program =
                stack_program(reduction_program(parse_topology(name), workers), workers);
            int values = 0, sums = 0, deepest = 0;
            for (const StackInstruction& i : program.instructions) {
                values += i.worker >= 0;
                sums += (i.worker >= 0) - i.adds;
                deepest = std::max(deepest, sums + i.adds - 1);
            }
            EXPECT_EQ(values, workers) << name;
            EXPECT_EQ(sums, 1) << name;
            EXPECT_EQ(program.depth, std::max(deepest, 1)) << name;
            EXPECT_LE(program.depth, std::max(1, static_cast<int>(std::log2(workers)))) << name;
            EXPECT_EQ(program.instructions.back().worker, -1) << name;
            // A replay's hops keep as few sums.
            EXPECT_LE(hop_program(parse_topology(name), workers, false).slots,
                      std::max(1, static_cast<int>(std::log2(workers))))
                << name << workers;
        }
    }
    AllReduceOptions options;
    for (const char* name : {"tree", "butterfly", "ring", "hierarchical:1+kahan"}) {
        options.topology = parse_topology(name);
        expect_rows(random_floats(1024 * 3, 4, 8), 1024, parse_format("e5m2"), options);
    }
}

TEST(CudaReduce, ARowOfNoElementsAndRingsWithEmptyChunks) {
    AllReduceOptions options;
    options.topology = parse_topology("ring");
    EXPECT_TRUE(step_by_step({}, 3, parse_format("e4m3"), options).empty());
    for (const std::size_t workers : {2u, 3u, 7u, 64u, 100u}) {
        for (std::size_t n = 1; n < 24; ++n)
            expect_rows(mixed_rows(workers, n), workers, parse_format("e4m3"), options);
    }
}

TEST(CudaReduce, ScalesGoInAndOut) {
    constexpr std::size_t workers = 4, n = 501;
    const std::vector<float> in = mixed_rows(workers, n);
    for (const char* name : {"e4m3", "bf16", "e4m3fnuz"}) {
        const FloatFormat format = parse_format(name);
        for (const char* topology : {"ring", "tree", "sequential+kahan", "exact"}) {
            AllReduceOptions options;
            options.topology = parse_topology(topology);
            const RowCast cast(format, options.projection),
                accumulator = make_accumulator(format, options.projection);
            for (const double scale : {1.0, 0.25, 3.5, 0x1p9, 0x1p-30, 0x1p100, 0x1p-130}) {
                std::vector<std::vector<double>> rows(workers, std::vector<double>(n));
                std::vector<const double*> pointers;
                for (std::size_t w = 0; w < workers; ++w) {
                    encode_row(std::span(in).subspan(w * n, n), rows[w].data(), scale, cast,
                               seed_key(0), static_cast<std::uint32_t>(w), 0);
                    pointers.push_back(rows[w].data());
                }
                std::vector<double> expected(n);
                ReduceScratch<double> scratch;
                reduce(options.topology, pointers, 0, n, n, accumulator, seed_key(0), expected,
                       scratch);
                for (double& sum : expected) sum = sum / scale / 4.0;
                const std::vector<double> sums =
                    step_by_step(in, workers, format, options, {scale, 4.0});
                EXPECT_EQ(
                    differing(defined(expected, options, workers), defined(sums, options, workers)),
                    0u)
                    << name << " " << topology << " " << scale;
            }
        }
    }
}

}  // namespace
}  // namespace apscope::detail
