// Replays with a device. The CPU runs the work of the GPU's threads, item by item. Every row has
// the bits of a replay without a device.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "analysis/replay/replay.h"
#include "emulation/schemes/defined_scheme.h"
#include "emulation/schemes/definition.h"
#include "tests/support/device_replays.h"

namespace apscope::detail {

using namespace apscope::detail::test;

namespace {

using CudaReplay = DeviceReplays;

}  // namespace

TEST_F(CudaReplay, EveryRoundingAndTopology) {
    const Trace t = trace(5, {4096 + 905, 3}, "mean", many_binades);
    for (const RoundingName& row : rounding_names) {
        if (row.mode == RoundingMode::stochastic_exact) continue;
        const std::string rounding(row.name);
        const std::string aps = std::string("aps:e4m3,rounding=") + rounding,
                          scaled = std::string("loss_scaling:e5m2,scale=1000,rounding=") + rounding,
                          hops = std::string("none:bf16,hop_rounding=") + rounding,
                          narrow = std::string("aps:e3m0,random_bits=8,rounding=") + rounding;
        expect_same_rows(t, asked(t, {aps.c_str(), scaled.c_str(), hops.c_str(), narrow.c_str()}),
                         plenty, 8);
    }
}

TEST_F(CudaReplay, SpecialValuesOddSizesAndSmallPieces) {
    const std::vector<const char*> schemes{
        "none:fp16",
        "none:e4m3,overflow=saturate",
        "aps:e5m2,rounding=stochastic",
        "aps:bf16,hop_rounding=stochastic",
        "loss_scaling:e4m3fn,scale=1000,rounding=stochastic,overflow=saturate",
        "stochastic:e4m3",
        "natural",
        "none:float8_e4m3fnuz,rounding=toward_negative",
        "none:fp32",
        "none:e2m1fn,overflow=saturate",
        "none:e5m2,overflow=saturate,hop_rounding=stochastic,accumulate=e4m3fn",
        "none:e8m0fnu,overflow=saturate"};
    for (const char* reduction : {"mean", "sum"}) {
        const Trace t = trace(3, odd_sizes, reduction, with_specials);
        for (const std::uint64_t memory : {std::uint64_t{1}, plenty})
            expect_same_rows(t, asked(t, schemes), memory, schemes.size());
    }
}

TEST_F(CudaReplay, AccumulatorsOfEveryKind) {
    const Trace t = trace(6, {4096 + 100, 50}, "mean", many_binades);
    expect_same_rows(t,
                     asked(t, {"aps:e4m3,accumulate=fp32", "aps:e4m3,accumulate=exact",
                               "aps:e4m3,accumulate=bf16,hop_rounding=to_odd",
                               "aps:e4m3,rounding=stochastic,accumulate=exact",
                               "aps:e5m2,rounding=stochastic,accumulate=fp16",
                               "aps:e4m3,accumulate=fp32,hop_rounding=stochastic,random_bits=60",
                               "hfp8:e5m2", "delayed_scaling:e5m2", "current_scaling:e5m2",
                               "dynamic_loss_scaling:fp16", "qsgd"}),
                     plenty);
}

TEST_F(CudaReplay, TwoPhases) {
    const std::vector<const char*> schemes{"none:fp32",
                                           "none:e4m3fn,overflow=saturate",
                                           "none:e4m3,rounding=stochastic,random_bits=3",
                                           "aps:e5m2",
                                           "aps:e3m4,rule=tight,overflow=saturate",
                                           "aps:e3m0noinf,rule=tight",
                                           "aps:e4m3,rounding=stochastic",
                                           "aps:e2m1fn,headroom=one",
                                           "stochastic:e3m4,overflow=saturate",
                                           "loss_scaling:e4m3fn,scale=10",
                                           "loss_scaling:e5m2,scale=3,rounding=stochastic"};
    for (const int workers : {1, 3, 8}) {
        const Trace t = trace(workers, odd_sizes, workers == 3 ? "sum" : "mean", with_specials);
        ReplayOptions options = asked(t, schemes);
        options.topologies.clear();
        for (const char* name : {"two_phase", "reduce_scatter", "two_phase,phase2=(none:bf16)",
                                 "two_phase,phase2=(aps:e5m2,rule=tight)",
                                 "two_phase,sum=exact"})  // the last runs here
            options.topologies.push_back(parse_topology(name));
        const std::size_t tasks = schemes.size() * odd_sizes.size() * 3;
        for (const Late late : {Late::copies, Late::work})
            for (const std::uint64_t memory : {std::uint64_t{1}, plenty})
                expect_same_rows(t, options, memory, tasks, late);
    }
}

TEST_F(CudaReplay, BlockFormats) {
    const std::vector<const char*> schemes{
        "mx",
        "mx:block_format=mxfp4,rule=rceil",
        "mx:block_format=mxint8,rule=even,rounding=toward_zero",
        "mx:block_format=mxfp6_e2m3,block=4,rule=nearest,nonfinite=torchao",
        "mx:block_format=mxfp8_e5m2,block=128,rounding=stochastic,nonfinite=torchao_0.18",
        "mx:block_format=bfp:8:16,rounding=stochastic,random_bits=7",
        "mx:block_format=mxfp4,block=4096,rule=ceil,nonfinite=transformer_engine",
        "nvfp4:rht=false",
        "nvfp4:rht=false,agree=local,rounding=ties_to_even",
        "nvfp4:rht=false,tensor_scale=false,scale=e5m3fnu,rounding=ties_to_away"};
    for (const int workers : {1, 3, 8}) {
        const Trace t = trace(workers, odd_sizes, workers == 3 ? "sum" : "mean", with_specials);
        for (const std::uint64_t memory : {std::uint64_t{1}, plenty}) {
            ReplayOptions options = asked(t, schemes);
            options.topologies = {parse_topology("ring")};
            expect_same_rows(t, options, memory, schemes.size() * odd_sizes.size());
        }
    }
}

TEST_F(CudaReplay, UnitsOfElements) {
    const std::vector<const char*> schemes{
        "aps:e4m3,unit=16",
        "aps:e3m4,unit=32,rule=tight,overflow=saturate",
        "aps:e2m1fn,unit=1,rule=tight,headroom=sqrt_workers",
        "aps:e5m2,unit=4096,rounding=stochastic,headroom=one",
        "aps:e4m3fn,unit=64,rounding=stochastic,hop_rounding=toward_zero,random_bits=9",
        "aps:e3m0noinf,unit=8,hop_rounding=stochastic",
        "aps:fp16,unit=2,accumulate=fp32",
        "aps:e4m3,unit=256,accumulate=exact,rounding=to_odd"};
    for (const int workers : {1, 3, 8}) {
        const Trace t = trace(workers, odd_sizes, workers == 3 ? "sum" : "mean", with_specials);
        for (const std::uint64_t memory : {std::uint64_t{1}, plenty}) {
            ReplayOptions options = asked(t, schemes);
            std::erase_if(options.topologies, [](const Topology& t) { return !t.is_order(); });
            expect_same_rows(t, options, memory, schemes.size() * odd_sizes.size());
        }
    }
    // One exponent for all units.
    const Trace equal = trace(4, {5000, 64}, "mean", [](int w, std::size_t, std::size_t) {
        return w == 1 ? -3.0f : 0.25f;
    });
    expect_same_rows(equal, asked(equal, {"aps:e4m3,unit=16", "aps:e5m2,unit=32"}), plenty, 8);
}

// The blocks of phase 2 are counted from a shard's start, and cross the ends of pieces.
TEST_F(CudaReplay, BlockFormatsInTwoPhases) {
    const std::vector<const char*> schemes{
        "mx",
        "mx:block_format=mxfp4,block=512,rule=even",
        "mx:block_format=mxint8,block=2,rounding=to_odd",
        "mx:block_format=mxfp6_e3m2,nonfinite=torchao",
        "nvfp4:rht=false,rounding=ties_to_even",
        "nvfp4:rht=false,tensor_scale=false,rounding=ties_to_even",
        "aps:e4m3,unit=16",
        "aps:e2m1fn,unit=2048,rule=tight",
        "aps:bf16,unit=1,rounding=toward_positive",
        "nvfp4:rht=false",
        "mx:block_format=mxfp8_e5m2,block=128,rounding=stochastic",
        "mx:block_format=bfp:8:16,rounding=stochastic_b,random_bits=7",
        "aps:e5m2,unit=16,rounding=stochastic,random_bits=9"};
    for (const int workers : {1, 3, 8}) {
        const Trace t = trace(workers, odd_sizes, workers == 3 ? "sum" : "mean", with_specials);
        ReplayOptions options = asked(t, schemes);
        options.topologies.clear();
        for (const char* name : {"two_phase", "reduce_scatter", "two_phase,phase2=(mx:block=16)",
                                 "two_phase,phase2=(nvfp4:rht=false,rounding=ties_to_even)",
                                 "two_phase,phase2=(aps:e5m2,unit=32,rule=tight)",
                                 "two_phase,phase2=(aps:e4m3fn,unit=16,rounding=stochastic)"})
            options.topologies.push_back(parse_topology(name));
        // The last topology runs on the device only if messages draw, too.
        const std::size_t tasks = (schemes.size() * 5 + 4) * odd_sizes.size();
        for (const Late late : {Late::copies, Late::work})
            for (const std::uint64_t memory : {std::uint64_t{1}, plenty})
                expect_same_rows(t, options, memory, tasks, late);
    }
}

// The second pass begins while steps of the first may still read their inputs.
TEST_F(CudaReplay, TwoPhasesInPieces) {
    for (const std::size_t blocks : {2u, 3u, 7u}) {
        const Trace t = trace(3, {blocks * 4096 - 5}, "mean", many_binades);
        ReplayOptions options = asked(t, {"aps:e4m3", "aps:e5m2,rounding=stochastic"});
        for (const Late late : {Late::copies, Late::work}) expect_same_rows(t, options, 1, 6, late);
    }
}

TEST_F(CudaReplay, NeighboursWithOneScaleShareTheStepsOfTwoPhases) {
    class Planned : public RowDevice {
    public:
        std::vector<RowTotals> run(std::span<const std::span<const float>> rows, double divisor,
                                   std::span<const double>,
                                   std::span<const RowTask> tasks) override {
            const RowPlan plan(tasks, static_cast<int>(rows.size()), rows[0].size(), divisor,
                               false);
            for (std::size_t t = 0; t < tasks.size(); ++t)
                if (tasks[t].phases) messages.push_back(plan.tasks()[t].messages.size());
            throw std::runtime_error("planned");
        }
        std::vector<std::size_t> messages;
    } device;
    for (const int other : {-1, 0, 2}) {  // the worker with a scale of its own
        const Trace t = trace(5, {100}, "mean", [&](int w, std::size_t, std::size_t) {
            return w == other ? 3.0f : 0.25f;
        });
        ReplayOptions options = asked(t, {"aps:e4m3"});
        options.topologies = {parse_topology("two_phase")};
        options.device = &device;
        EXPECT_THROW(replay(t, options), std::runtime_error);
    }
    EXPECT_EQ(device.messages, (std::vector<std::size_t>{1, 2, 3}));
}

TEST_F(CudaReplay, DrawsAreSampledAlike) {
    const Trace t = trace(4, {2 * 4096 + 77, 5}, "mean", with_specials);
    ReplayOptions options =
        asked(t,
              {"aps:e4m3,rounding=stochastic,hop_rounding=ties_to_even",
               "loss_scaling:e5m2,scale=3,rounding=stochastic_b,hop_rounding=to_odd", "aps:e4m3",
               "aps:e4m3,rounding=stochastic", "stochastic:e4m3"},
              5);
    expect_same_rows(t, options, plenty);
    expect_same_rows(t, options, 1);
}

TEST_F(CudaReplay, DrawsInBlocksAreSampledAlike) {
    const std::vector<const char*> schemes{
        "nvfp4:rht=false",
        "mx:block_format=mxfp8_e5m2,block=128,rounding=stochastic",
        "mx:block_format=mxint8,rounding=stochastic_b,random_bits=7",
        "nvfp4:rht=false,rounding=ties_to_even",
        "aps:e5m2,unit=4096,rounding=stochastic,headroom=one,overflow=saturate",
        "aps:e4m3fn,unit=16,rounding=stochastic,hop_rounding=ties_to_even,overflow=saturate",
        "aps:e3m4,unit=32,hop_rounding=stochastic,overflow=saturate"};
    for (float (*const values)(int, std::size_t, std::size_t) : {with_specials, many_binades}) {
        const Trace t = trace(3, {2 * 4096 + 77, 5}, "mean", values);
        ReplayOptions options = asked(t, schemes, 4);
        std::erase_if(options.topologies, [](const Topology& t) { return !t.is_order(); });
        for (const std::uint64_t memory : {std::uint64_t{1}, plenty})
            expect_same_rows(t, options, memory, 2 * schemes.size());
    }
}

// Whether K draws estimate the moments of messages that can overflow is known after the rounding.
TEST_F(CudaReplay, DrawsOfBlocksThatOverflowRunHere) {
    const Trace t = trace(2, {5000}, "mean", many_binades);
    const std::vector<const char*> schemes{
        "aps:e5m2,unit=16,rounding=stochastic,headroom=one,overflow=infinity"};
    CountedRows device(plenty);
    for (const int draws : {1, 3}) {
        ReplayOptions options = asked(t, schemes, draws);
        std::erase_if(options.topologies, [](const Topology& t) { return !t.is_order(); });
        expect_same_rows(t, options, plenty, 0);
        options.device = &device;
        replay(t, options);
        EXPECT_EQ(device.tasks(), 1u) << draws;
    }
}

TEST_F(CudaReplay, OneWorkerManyWorkersAndMoreWorkersThanElements) {
    for (const int workers : {1, 2, 31, 64}) {
        const Trace t = trace(workers, {517, 5}, workers == 31 ? "sum" : "mean", many_binades);
        expect_same_rows(t,
                         asked(t, {"aps:e4m3", "aps:e4m3,rounding=stochastic", "stochastic:bf16",
                                   "aps:fp16,accumulate=e5m2"}),
                         plenty);
    }
}

TEST_F(CudaReplay, ReducedTracesHaveWireRowsOnly) {
    const Trace t = trace(1, {5000}, "mean", many_binades, "reduced");
    expect_same_rows(t, asked(t, {"aps:e4m3", "stochastic:e4m3"}), plenty);
}

TEST_F(CudaReplay, WhatADeviceDoesNotServeRunsHere) {
    const Trace t = trace(2, {5000}, "mean", many_binades);
    CountedRows device(plenty);
    ReplayOptions options =
        asked(t, {"qsgd:code=elias", "top_k", "aps:e4m3", "error_feedback(sign)"});
    options.device = &device;
    replay(t, options);
    // aps in all orders, in two phases, and with reduce_scatter
    EXPECT_EQ(device.tasks(), 3u);
    options.topologies = {parse_topology("pat")};  // not plain, so the device gets no task
    replay(t, options);
    EXPECT_EQ(device.tasks(), 3u);
    // Of these, only mx does not depend on the orders.
    options = asked(t, {"aps:e4m3,unit=16", "aps:e4m3,unit=row", "mx:along=row",
                        "nvfp4:four_over_six=mae", "mx", "error_feedback(mx)",
                        "mx:rounding=stochastic,correlated=true"});
    options.topologies = {parse_topology("pat")};
    expect_same_rows(t, options, plenty);
    options.device = &device;
    replay(t, options);
    EXPECT_EQ(device.tasks(), 4u);
}

// A caller's functions replace what the descriptions of an encoding say.
TEST_F(CudaReplay, DefinedSchemesKeepTheirFunctions) {
    const Trace t = trace(3, {5000, 70}, "mean", many_binades);
    const auto signs = [](const RowPiece& piece, Message& m) {
        m.prepare(piece.x.size(), false, false);
        for (std::size_t i = 0; i < piece.x.size(); ++i) m.values[i] = piece.x[i] < 0 ? -1.0 : 1.0;
    };
    for (const char* base : {"mx", "nvfp4:rht=false,rounding=ties_to_even", "aps:e4m3,unit=16"}) {
        DefinedParts encode, compare;
        encode.encode = signs;
        compare.compares_intended = true;
        for (const DefinedParts& parts : {encode, compare}) {
            ReplayOptions options = asked(t, {"aps:e4m3"});
            options.schemes.push_back(define_scheme("mine", parse_scheme(base), parts));
            expect_same_rows(t, options, plenty);
        }
    }
}

// Formats without a zero, scales below fp32's smallest normal number, and tensor scales so small
// that they have no inverse.
TEST_F(CudaReplay, UnusualFormatsInBlocks) {
    const Trace t = trace(2, {4096 + 300, 40}, "sum", with_specials);
    const Trace tiny = trace(1, {300}, "sum", [](int, std::size_t, std::size_t i) {
        return std::ldexp(1.0f + static_cast<float>(i % 7) / 8.0f, i % 3 == 0 ? -126 : -149);
    });
    const Trace huge = trace(1, {300}, "sum", [](int, std::size_t, std::size_t i) {
        return i % 40 == 0 ? 0x1.14p+126f : 0x1p-120f;
    });
    for (const Trace* one : {&t, &tiny, &huge})
        expect_same_rows(*one,
                         asked(*one, {"aps:e4m3", "aps:e2m22unosubzero0,unit=2",
                                      "mx:block_format=blocks:e4m3/scale=e8m0fnub135",
                                      "mx:block_format=blocks:e5m2/scale=e1m0fnuzub129nosubzero0",
                                      "nvfp4:rht=false,rounding=ties_to_even,scale=e5m0fnb64inf",
                                      "nvfp4:rht=false,scale=e3m0fnuzb19"}),
                         plenty);
}

TEST_F(CudaReplay, PiecesShrinkUntilTheyFit) {
    const Trace t = trace(3, {9 * 4096 + 1}, "mean", many_binades);
    ReplayOptions options = asked(t, {"aps:e4m3,rounding=stochastic"});
    const ReplayResult expected = replay(t, options);
    // A block's largest array has the results of eight rows and two rows of moments.
    constexpr std::uint64_t block = (8 + 2) * 4096 * sizeof(double);
    HostRows narrow(MakeHostQueue{3 * block}, plenty), full(MakeHostQueue{block - 1}, plenty);
    options.device = &narrow;
    const ReplayResult got = replay(t, options);
    expect_same(got.rows, expected.rows, "in pieces");
    options.device = &full;
    EXPECT_THROW(replay(t, options), std::bad_alloc);
}

TEST_F(CudaReplay, CopiesAndStepsMayRunAsLateAsTheyWait) {
    const Trace t = trace(3, {7 * 4096 + 1, 4096}, "mean", with_specials);
    const ReplayOptions options = asked(t, {"aps:e4m3,rounding=stochastic", "stochastic:e4m3"}, 3);
    for (const Late late : {Late::copies, Late::work}) {
        expect_same_rows(t, options, 1, 2, late);
        expect_same_rows(t, options, plenty, 2, late);
    }
}

TEST_F(CudaReplay, SmallItemsStayOnTheCpu) {
    const Trace t = trace(3, {4096, 4095, 17}, "mean", many_binades);
    ReplayOptions options = asked(t, {"aps:e4m3", "none:fp16"});
    const ReplayResult expected = replay(t, options);
    for (const std::uint64_t min_values : {3 * 4096 + 1, 3 * 4096, 3 * 17, 1}) {
        CountedRows device(plenty, Late::work, min_values);
        options.device = &device;
        const ReplayResult got = replay(t, options);
        expect_same(got.rows, expected.rows, std::to_string(min_values));
        const std::size_t items = min_values > 3 * 4096 ? 0 : min_values > 3 * 17 ? 1 : 3;
        EXPECT_EQ(device.tasks(), 2 * 3 * items);  // in all orders, and two reductions in phases
    }
}

TEST_F(CudaReplay, ThreadsShareADevice) {
    const Trace t = trace(3, {4096 + 7, 4096, 300, 1000, 3, 50}, "mean", many_binades);
    ReplayOptions options =
        asked(t, {"aps:e4m3", "aps:e5m2,rounding=stochastic", "qsgd", "error_feedback(sign)"});
    const ReplayResult expected = replay(t, options);
    HostRows device(MakeHostQueue{}, plenty);
    options.device = &device;
    options.threads = 4;
    const ReplayResult got = replay(t, options);
    expect_same(got.rows, expected.rows, "by four threads");
}

TEST_F(CudaReplay, AddsUpNoErrorsOverSteps) {
    const Trace t = trace(4, {100}, "mean", many_binades);
    ReplayOptions options = asked(t, {"aps:e4m3"});
    HostRows rows(MakeHostQueue{}, plenty);
    options.persistence = true;
    EXPECT_FALSE(replay(t, options).windows.empty());
    options.device = &rows;
    EXPECT_THROW(replay(t, options), std::invalid_argument);
}

TEST_F(CudaReplay, FastRoundingsAndSumsServeWhereTheyDoOnTheCpu) {
    // The tasks have the path: with a power of two as scale, e4m3 is added in fp32, with another
    // scale by the rule.
    class Noted : public RowDevice {
    public:
        std::vector<RowTotals> run(std::span<const std::span<const float>>, double,
                                   std::span<const double>,
                                   std::span<const RowTask> tasks) override {
            for (const RowTask& task : tasks)
                found.push_back(std::to_string(task.wires[0].narrow.has_value()) +
                                std::to_string(task.step.has_value()));
            throw std::runtime_error("noted");
        }
        std::vector<std::string> found;
    } device;
    const Trace t = trace(4, {100}, "mean", many_binades);
    ReplayOptions options =
        asked(t, {"aps:e4m3", "aps:e4m3,hop_rounding=stochastic", "loss_scaling:e4m3,scale=1000",
                  "aps:e4m3,accumulate=fp32", "stochastic:e4m3"});
    options.topologies = {parse_topology("ring")};
    options.device = &device;
    EXPECT_THROW(replay(t, options), std::runtime_error);
    EXPECT_EQ(device.found, (std::vector<std::string>{"11", "10", "00", "11", "11"}));
}

TEST(CudaReplayOfBundledTraces, EveryRow) {
    for (const char* name : {"digits", "digits_w64", "characters"}) {
        const Trace t =
            Trace::open(std::filesystem::path(APSCOPE_ROOT) / "notebooks" / "data" / name);
        ReplayOptions options =
            asked(t, {"aps:e4m3", "aps:e5m2,rounding=stochastic", "loss_scaling:fp16,scale=largest",
                      "stochastic:bf16,random_bits=8", "dynamic_loss_scaling:e4m3",
                      "hybrid(last=none:fp16;else=aps:e4m3)"});
        const std::size_t count = options.steps.size();
        options.steps = {0, count / 2, count - 1};
        if (options.workers == 64) options.tensors.resize(2);
        expect_same_rows(t, options, plenty);
    }
}

}  // namespace apscope::detail
