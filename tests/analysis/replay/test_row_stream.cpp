// Items may end in any order: RowStream gives each row once, in the order of the table, and never
// holds many rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>

#include "analysis/replay/row_stream.h"

using namespace apscope::detail;

namespace {

constexpr std::size_t steps = 7, tensors = 5;
constexpr std::uint32_t in_order_scheme = 1;  // of three

ResultRow row(std::size_t step, std::size_t tensor, std::uint32_t scheme, int place) {
    ResultRow made;
    made.step_index = static_cast<std::uint32_t>(step);
    made.tensor_index = static_cast<std::uint32_t>(tensor);
    made.scheme_index = scheme;
    made.wire_bits = place;  // within the item
    return made;
}

// For every tensor, the item of one scheme over all steps, then the items of the other schemes at
// one step each.
std::vector<WorkItem> all_items() {
    std::vector<WorkItem> items;
    for (std::size_t k = 0; k < tensors; ++k) items.push_back({k, {}, in_order_scheme});
    for (std::size_t t = 0; t < steps; ++t) {
        for (std::size_t k = 0; k < tensors; ++k) items.push_back({k, t, 0});
    }
    return items;
}

// Two rows for each scheme of the item, the last scheme first.
std::vector<std::vector<ResultRow>> rows_of(const WorkItem& item) {
    std::vector<std::vector<ResultRow>> rows;
    for (std::size_t t = item.step.value_or(0); t < (item.step ? *item.step + 1 : steps); ++t) {
        std::vector<ResultRow>& here = rows.emplace_back();
        const std::vector<std::uint32_t> schemes =
            item.step ? std::vector<std::uint32_t>{2, 0} : std::vector{in_order_scheme};
        for (const std::uint32_t scheme : schemes) {
            for (int place = 0; place < 2; ++place)
                here.push_back(row(t, item.tensor, scheme, place));
        }
    }
    return rows;
}

TEST(RowStream, GivesRowsInTheOrderOfTheTableWhateverEndsFirst) {
    std::mt19937 random(3);
    for (int trial = 0; trial < 20; ++trial) {
        std::vector<WorkItem> items = all_items(), ended = items;
        std::shuffle(ended.begin(), ended.end(), random);
        std::vector<ResultRow> given;
        std::vector<std::size_t> sizes, begun;
        RowStream stream(
            items, steps, 40,
            [&](std::vector<ResultRow> some) {
                sizes.push_back(some.size());
                given.insert(given.end(), some.begin(), some.end());
            },
            [&](std::size_t t) { begun.push_back(t); });
        for (const WorkItem& item : ended) stream.add(item, rows_of(item));
        stream.end();
        ASSERT_EQ(given.size(), steps * tensors * 3 * 2);
        std::size_t i = 0;
        for (std::size_t t = 0; t < steps; ++t) {
            for (std::size_t k = 0; k < tensors; ++k) {
                for (std::uint32_t scheme = 0; scheme < 3; ++scheme) {
                    for (int place = 0; place < 2; ++place, ++i) {
                        EXPECT_EQ(given[i].step_index, t);
                        EXPECT_EQ(given[i].tensor_index, k);
                        EXPECT_EQ(given[i].scheme_index, scheme);
                        EXPECT_EQ(given[i].wire_bits, place);
                    }
                }
            }
        }
        for (std::size_t j = 0; j + 1 < sizes.size(); ++j) EXPECT_GE(sizes[j], 40u);
        std::vector<std::size_t> every(steps + 1);
        std::iota(every.begin(), every.end(), std::size_t{0});
        EXPECT_EQ(begun, every);
    }
}

// A scheme that streams in one topology, but has memory in two phases, has two items.
TEST(RowStream, RowsOfASchemeFromTwoItemsComeInTheOrderOfTheTopologies) {
    const std::vector<WorkItem> items{{0, {}, 0}, {0, 0, 0}};
    const auto rows = [](const WorkItem& item) {
        std::vector<std::vector<ResultRow>> made(1);
        for (const std::uint32_t topology :
             item.step ? std::vector<std::uint32_t>{0, 1, 4} : std::vector<std::uint32_t>{3, 5}) {
            made[0].push_back(row(0, 0, 0, 0));
            made[0].back().topology_index = topology;
        }
        return made;
    };
    for (const std::size_t ends_first : {0, 1}) {
        std::vector<std::uint32_t> given;
        RowStream stream(
            items, 1, 1,
            [&](std::vector<ResultRow> some) {
                for (const ResultRow& one : some) given.push_back(one.topology_index);
            },
            [](std::size_t) {});
        for (const std::size_t i : {ends_first, 1 - ends_first})
            stream.add(items[i], rows(items[i]));
        stream.end();
        EXPECT_EQ(given, (std::vector<std::uint32_t>{0, 1, 3, 4, 5}));
    }
}

TEST(RowStream, AStepIsGivenOnceItsLastItemEnds) {
    const std::vector<WorkItem> items{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}};
    std::vector<std::size_t> sizes;
    RowStream stream(
        items, 2, 1, [&](std::vector<ResultRow> some) { sizes.push_back(some.size()); },
        [](std::size_t) {});
    stream.add(items[2], rows_of(items[2]));
    stream.add(items[0], rows_of(items[0]));
    EXPECT_TRUE(sizes.empty());
    stream.add(items[1], rows_of(items[1]));
    EXPECT_EQ(sizes, (std::vector<std::size_t>{8, 4}));
    stream.end();
    EXPECT_EQ(sizes.size(), 2u);
}

TEST(RowStream, TheFirstStepWithItemsBeginsAtOnce) {
    const auto first_of = [](const std::vector<WorkItem>& items) {
        std::vector<std::size_t> begun;
        const RowStream stream(
            items, 3, 1, [](std::vector<ResultRow>) {}, [&](std::size_t t) { begun.push_back(t); });
        return begun;
    };
    EXPECT_EQ(first_of({{0, 2, 0}, {1, 2, 0}}), (std::vector<std::size_t>{2}));
    EXPECT_EQ(first_of({{0, 2, 0}, {0, {}, 0}}), (std::vector<std::size_t>{0}));
}

TEST(RowStream, WithoutRowsItIsCalledOnce) {
    int calls = 0;
    RowStream stream(
        {}, 3, 1,
        [&](std::vector<ResultRow> some) {
            ++calls;
            EXPECT_TRUE(some.empty());
        },
        [](std::size_t) {});
    stream.end();
    stream.end();
    EXPECT_EQ(calls, 1);
}

TEST(RowStream, AfterAnExceptionNothingIsGiven) {
    const std::vector<WorkItem> items = all_items();
    int calls = 0;
    RowStream stream(
        items, steps, 1,
        [&](std::vector<ResultRow>) {
            ++calls;
            throw std::runtime_error("the disk is full");
        },
        [](std::size_t) {});
    int thrown = 0;
    for (const WorkItem& item : items) {
        try {
            stream.add(item, rows_of(item));
        } catch (const std::runtime_error&) {
            ++thrown;
        }
    }
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(thrown, 1);
}

}  // namespace
