// Groups of rows are numbered in order of appearance, by a table or, if there are many codes, by
// hashing.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "analysis/summary/chosen_rows.h"
#include "analysis/summary/groups.h"

namespace {

using namespace apscope::detail;
using Numbers = std::vector<std::uint32_t>;

TEST(Groups, InOrderOfAppearance) {
    const std::vector<std::int32_t> codes{2, 0, 2, -1, 0, 1};
    const Groups groups = Groups(6).divided(3, [&](std::size_t i) { return codes[i]; });
    EXPECT_EQ(groups.of_row, (Numbers{0, 1, 0, 2, 1, 3}));
    EXPECT_EQ(groups.first, (Numbers{0, 1, 3, 5}));
    const Groups finer =
        groups.divided(2, [](std::size_t i) { return static_cast<std::int32_t>(i % 2); });
    EXPECT_EQ(finer.of_row, (Numbers{0, 1, 0, 2, 3, 4}));
    EXPECT_EQ(finer.owners(groups), (Numbers{0, 1, 2, 1, 3}));
    EXPECT_EQ(Groups(0).size(), 0u);
}

TEST(Groups, ManyCodesGiveTheSame) {
    const auto code = [](std::size_t i) { return static_cast<std::int32_t>(i * 7919 % 1000); };
    const Groups few = Groups(5000).divided(1000, code);
    const Groups many = Groups(5000).divided(1u << 30, code);
    EXPECT_EQ(few.of_row, many.of_row);
    EXPECT_EQ(few.first, many.first);
}

TEST(ChosenRows, OwnReductions) {
    EXPECT_TRUE(is_own_reduction("gather"));
    EXPECT_TRUE(is_own_reduction("gather+vote"));
    EXPECT_FALSE(is_own_reduction("hierarchical:4+kahan"));
    EXPECT_FALSE(is_own_reduction(""));
    const std::vector<std::string> names{"exact", "gather", "tree", "ring"}, own{"exact", "vote"},
        none{"exact"};
    EXPECT_EQ(headline_topology(names), "tree");
    // Two phases add in fp32; rows at the wire that name them may come before all sums.
    const std::vector<std::string> phases{"two_phase", "gather", "ring"},
        gathered{"exact", "two_phase", "gather"}, half{"exact", "reduce_scatter"};
    EXPECT_EQ(headline_topology(phases), "ring");
    EXPECT_EQ(headline_topology(gathered), "two_phase");
    EXPECT_EQ(headline_topology(half), "reduce_scatter");
    EXPECT_EQ(headline_topology(own), "vote");
    EXPECT_EQ(headline_topology(none), "exact");
    const std::vector<std::string> phased{"two_phase,sum=exact", "reduce_scatter", "exact", "ring"},
        alone{"gather", "two_phase"};
    EXPECT_EQ(headline_topology(phased), "ring");
    EXPECT_EQ(headline_topology(alone), "two_phase");
}

}  // namespace
