// Philox4x32-10 against the published known answers of Random123 (kat_vectors), and the slots of a
// stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "core/philox.h"

using namespace apscope;
using namespace apscope::detail;

namespace {

void expect_block(PhiloxBlock counter, PhiloxKey key, PhiloxBlock expected) {
    const PhiloxBlock got = philox(counter, key);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(got.word[i], expected.word[i]) << "word " << i;
}

}  // namespace

TEST(Philox, GivesThePublishedKnownAnswers) {
    expect_block({{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
    expect_block({{~0u, ~0u, ~0u, ~0u}}, {~0u, ~0u},
                 {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
    expect_block({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {0xa4093822, 0x299f31d0},
                 {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST(RandomStream, SlotsAreTheBlocksBitsLeftAligned) {
    const PhiloxBlock b{{0x11112222, 0x33334444, 0x55556666, 0x77778888}};
    const RandomStream sixteen{{0, 0}, 0, 0, 16}, four{{0, 0}, 0, 0, 4}, wide{{0, 0}, 0, 0, 32},
        full{{0, 0}, 0, 0, 64};
    EXPECT_EQ(sixteen.slot(b, 0), 0x2222ull << 48);
    EXPECT_EQ(sixteen.slot(b, 1), 0x1111ull << 48);
    EXPECT_EQ(sixteen.slot(b, 7), 0x7777ull << 48);
    EXPECT_EQ(four.slot(b, 6), 0x8ull << 60);
    EXPECT_EQ(wide.slot(b, 2), 0x55556666ull << 32);
    EXPECT_EQ(full.slot(b, 1), 0x7777888855556666ull);
}

TEST(RandomStream, AnElementsWordDependsOnItsIndexAlone) {
    for (const int bits : {1, 8, 16, 17, 32, 33, 64}) {
        const RandomStream stream{{7, 9}, 3, stage_and_hop(Stage::reduce, 5), bits};
        const int slots = RandomStream::slots(bits);
        for (std::uint64_t i = 0; i < 40; ++i) {
            EXPECT_EQ(stream.at(i),
                      stream.slot(stream.block(i / slots), static_cast<int>(i % slots)));
            EXPECT_EQ(stream.at(i) & ~(~std::uint64_t{0} << (64 - bits)), 0u)
                << "bits below the top " << bits;
        }
        // From 2^32 blocks on, the second counter word has the high half of the index.
        const std::uint64_t far = (std::uint64_t{1} << 33) * static_cast<std::uint64_t>(slots);
        EXPECT_NE(stream.at(far), stream.at(0));
    }
}

TEST(CorrelatedWords, HaveAPlaceEachThatAllWorkersDrawAlike) {
    for (const std::uint32_t workers : {2u, 3u, 4u, 7u}) {
        std::map<std::vector<std::uint32_t>, int> permutations;
        constexpr int elements = 24000;
        for (std::uint64_t e = 0; e < elements; ++e) {
            std::vector<std::uint32_t> places, sorted(workers);
            for (std::uint32_t w = 0; w < workers; ++w)
                places.push_back(
                    RandomStream{{7, 9}, w, stage_and_hop(Stage::wire, 0), 8, workers}.place(e));
            if (workers < 5) ++permutations[places];
            std::ranges::sort(places);
            std::iota(sorted.begin(), sorted.end(), 0u);
            ASSERT_EQ(places, sorted);
        }
        if (workers >= 5) continue;
        const int kinds = workers == 2 ? 2 : workers == 3 ? 6 : 24;
        ASSERT_EQ(static_cast<int>(permutations.size()), kinds);
        for (const auto& [places, count] : permutations)
            EXPECT_NEAR(count, elements / kinds, 5 * std::sqrt(elements / kinds));
    }
}

TEST(CorrelatedWords, AreThePlaceAndTheWordDividedByTheNumberOfWorkers) {
    for (const std::uint32_t workers : {2u, 3u, 5u, 64u, 1000000u}) {
        for (const int bits : {1, 2, 8, 16, 17, 32, 53, 64}) {
            for (std::uint64_t e = 0; e < 20; ++e) {
                const std::uint32_t worker = workers == 1000000u ? 77 : workers - 1;
                const RandomStream plain{{7, 9}, worker, stage_and_hop(Stage::wire, 2), bits};
                RandomStream stream = plain;
                stream.strata = workers;
                if (workers > 1000 && e > 0) continue;  // a place needs as many draws as workers
                const unsigned __int128 place = stream.place(e), word = plain.at(e) >> (64 - bits);
                const auto wanted = static_cast<std::uint64_t>(((place << bits) + word) / workers);
                ASSERT_EQ(stream.at(e) >> (64 - bits), wanted) << workers << " " << bits;
            }
        }
    }
}

TEST(ReplayKey, DiffersByTensorStepSeedAndDraw) {
    const PhiloxKey key = replay_key(1, "conv1.weight", 2);
    const auto same = [&](PhiloxKey other) {
        return other.low == key.low && other.high == key.high;
    };
    EXPECT_TRUE(same(replay_key(1, "conv1.weight", 2)));
    EXPECT_FALSE(same(replay_key(1, "conv1.bias", 2)));
    EXPECT_FALSE(same(replay_key(1, "conv1.weight", 3)));
    EXPECT_FALSE(same(replay_key(2, "conv1.weight", 2)));
    EXPECT_FALSE(same(replay_key(1, "conv1.weight", 2, 1)));
    EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325u);  // published FNV-1a 64 values
    EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cu);
    EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8u);
}
