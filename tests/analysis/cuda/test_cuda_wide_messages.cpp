// Replays with a device of messages whose decoded values are fp64 numbers: rotated blocks and
// uniform levels. Every row has the bits of a replay without a device.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emulation/schemes/codecs/rotation.h"
#include "tests/support/device_replays.h"

namespace apscope::detail {

using namespace apscope::detail::test;

namespace {

using WideReplay = DeviceReplays;

// Of messages in every reduction that a device serves.
ReplayOptions in_phases(const Trace& t, const std::vector<const char*>& schemes, int draws = 1) {
    ReplayOptions options = asked(t, schemes, draws);
    options.topologies.clear();
    for (const char* name :
         {"two_phase", "reduce_scatter", "two_phase,phase2=(qsgd:bucket=64)",
          "two_phase,phase2=(nvfp4)", "two_phase,phase2=(aps:e5m2,unit=32,rule=tight)"})
        options.topologies.push_back(parse_topology(name));
    return options;
}

const std::vector<const char*> schemes{"nvfp4",
                                       "nvfp4:agree=local,rounding=ties_to_even",
                                       "nvfp4:tensor_scale=false",
                                       "nvfp4:scale=e5m3fnu,random_bits=9",
                                       "nvfp4:rounding=stochastic_b,random_bits=40",
                                       "qsgd",
                                       "qsgd:levels=127,bucket=4096,random_bits=53",
                                       "qsgd:levels=1,bucket=1,norm=max,random_bits=1",
                                       "qsgd:levels=1048576,bucket=8,random_bits=16"};

}  // namespace

TEST(Rotation, IsThatOfRows) {
    for (const std::size_t first : {0u, 1u}) {
        double group[Rotation::size];
        Row row;
        for (std::size_t l = 0; l < Rotation::size; ++l)
            row.push_back(group[l] = many_binades(1, first, 7 * l + first));
        Row turned = rotated(row);
        Rotation::forward(group);
        for (std::size_t l = 0; l < Rotation::size; ++l) EXPECT_EQ(turned[l], group[l]) << l;
        rotate_back(turned, 13);
        Rotation::back(group);
        ASSERT_EQ(turned.size(), 13u);
        for (std::size_t l = 0; l < turned.size(); ++l) EXPECT_EQ(turned[l], group[l]) << l;
    }
}

TEST_F(WideReplay, OddSizesSpecialValuesAndSmallPieces) {
    for (const int workers : {3, 8}) {
        const Trace t = trace(workers, odd_sizes, workers == 3 ? "sum" : "mean", with_specials);
        ReplayOptions options = asked(t, schemes);
        std::erase_if(options.topologies, [](const Topology& t) { return !t.is_order(); });
        for (const std::uint64_t memory : {std::uint64_t{1}, plenty})
            expect_same_rows(t, options, memory, schemes.size() * odd_sizes.size());
    }
}

// Groups and buckets of a sum are counted from a shard's start, and cross the ends of pieces.
TEST_F(WideReplay, TwoPhases) {
    for (const int workers : {1, 3, 8}) {
        const Trace t = trace(workers, odd_sizes, workers == 3 ? "sum" : "mean", with_specials);
        ReplayOptions options = in_phases(t, schemes);
        for (const char* other : {"mx", "aps:e4m3,unit=16"})
            options.schemes.push_back(parse_scheme(other));
        for (const Late late : {Late::copies, Late::work})
            for (const std::uint64_t memory : {std::uint64_t{1}, plenty})
                expect_same_rows(t, options, memory, 1, late);
    }
}

TEST_F(WideReplay, EveryReductionOfTheseSchemesRunsThere) {
    const Trace t = trace(3, {5000}, "mean", many_binades);
    ReplayOptions options = in_phases(t, {"nvfp4", "qsgd"});
    CountedRows device(plenty);
    options.device = &device;
    replay(t, options);
    EXPECT_EQ(device.tasks(), 2 * (1 + options.topologies.size()));
    // Codes of other lengths, other encodings, and buckets that do not divide 4096 elements.
    options = asked(t, {"nvfp4:four_over_six=mse", "nvfp4:nonfinite=transformer_engine",
                        "qsgd:bucket=500", "qsgd:code=elias", "qsgd:correlated=true"});
    options.device = &device;
    const std::size_t before = device.tasks();
    replay(t, options);
    EXPECT_EQ(device.tasks(), before);
}

TEST_F(WideReplay, DrawsAreSampledAlike) {
    const Trace t = trace(3, {2 * 4096 + 77, 5}, "mean", with_specials);
    ReplayOptions options = asked(t, {"nvfp4", "qsgd", "qsgd:levels=127,norm=max"}, 4);
    std::erase_if(options.topologies, [](const Topology& t) { return !t.is_order(); });
    for (const std::uint64_t memory : {std::uint64_t{1}, plenty})
        expect_same_rows(t, options, memory, 6);
}

TEST_F(WideReplay, ReducedTracesAndManyWorkers) {
    const Trace reduced = trace(1, {5000, 70}, "mean", many_binades, "reduced");
    expect_same_rows(reduced, asked(reduced, {"nvfp4", "qsgd"}), plenty, 4);
    for (const int workers : {2, 31, 64}) {
        const Trace t = trace(workers, {517, 5}, workers == 31 ? "sum" : "mean", many_binades);
        expect_same_rows(t, in_phases(t, {"nvfp4", "qsgd"}), plenty, 4);
    }
}

}  // namespace apscope::detail
