// The levels for a normal distribution have the least variance among all choices; of two mirror
// images, the higher one is chosen. The symmetric levels have the least among the symmetric tables,
// and are the tables that THC's authors published.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "emulation/schemes/codecs/normal_levels.h"

namespace apscope::detail {
namespace {

long double density(long double x) {
    return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi_v<long double>);
}

// The integral of (x - a)(b - x) density(x) between neighbours, by the error function.
constexpr double clamp = 2.1538746940614573;  // 1/32 of the distribution lies beyond

long double variance(const std::vector<int>& levels, int g) {
    const NormalPoints points{g, clamp};
    long double sum = 0;
    for (std::size_t k = 1; k < levels.size(); ++k) {
        const long double a = points.level(levels[k - 1]), b = points.level(levels[k]),
                          root = std::numbers::sqrt2_v<long double>;
        const long double mass = (std::erf(b / root) - std::erf(a / root)) / 2;
        sum += (a + b) * (density(a) - density(b)) - (mass + a * density(a) - b * density(b)) -
               a * b * mass;
    }
    return sum;
}

std::vector<int> best_of_all(int count, int g) {
    std::vector<int> best;
    long double least = std::numeric_limits<long double>::infinity();
    for (unsigned subset = 0; subset < 1u << (g - 1); ++subset) {
        if (__builtin_popcount(subset) != count - 2) continue;
        std::vector<int> levels{0};
        for (int j = 1; j < g; ++j) {
            if (subset >> (j - 1) & 1) levels.push_back(j);
        }
        levels.push_back(g);
        const long double v = variance(levels, g);
        const bool equal = std::fabs(v - least) < 1e-14L;
        const bool higher = equal && std::vector<int>(levels.rbegin(), levels.rend()) >
                                         std::vector<int>(best.rbegin(), best.rend());
        if (equal ? !higher : v > least) continue;
        least = v;
        best = levels;
    }
    return best;
}

TEST(NormalLevels, AreTheBestOfAllChoices) {
    for (int g = 1; g <= 14; ++g) {
        for (int count = 2; count <= g + 1; ++count)
            EXPECT_EQ(normal_levels(count, {g, clamp}), best_of_all(count, g))
                << count << " of " << g + 1;
    }
}

// All tables of K / 2 integers 0 = j_1 < ... <= g / 2 and their mirror images.
std::vector<int> best_symmetric(int count, int g) {
    std::vector<int> best;
    long double least = std::numeric_limits<long double>::infinity();
    for (unsigned subset = 0; subset < 1u << (g / 2); ++subset) {
        if (__builtin_popcount(subset) != count / 2 - 1) continue;
        std::vector<int> levels{0};
        for (int j = 1; j <= g / 2; ++j) {
            if (subset >> (j - 1) & 1) levels.push_back(j);
        }
        for (std::size_t k = levels.size(); k-- > 0;) levels.push_back(g - levels[k]);
        const long double v = variance(levels, g);
        if (v > least - 1e-14L) continue;
        least = v;
        best = levels;
    }
    return best;
}

TEST(NormalLevels, OfSymmetricTablesTheyAreTheBest) {
    for (int g = 1; g <= 24; ++g) {
        for (int count = 2; count / 2 <= g / 2 + 1; count += 2)
            EXPECT_EQ(symmetric_normal_levels(count, {g, clamp}), best_symmetric(count, g))
                << count << " of " << g + 1;
    }
}

TEST(NormalLevels, OfMirrorImagesTheHigherOnesCount) {
    EXPECT_EQ(normal_levels(4, {10, clamp}),
              (std::vector<int>{0, 4, 7, 10}));  // as good as 0 3 6 10
}

TEST(NormalLevels, OfFourBitsAreThese) {
    EXPECT_EQ(normal_levels(16, {30, clamp}),
              (std::vector<int>{0, 3, 5, 7, 9, 11, 13, 15, 16, 17, 19, 21, 23, 25, 27, 30}));
}

TEST(NormalLevels, LeaveOneInThirtyTwoOutside) {
    EXPECT_NEAR(std::erfc(clamp / std::numbers::sqrt2), 1.0 / 32, 1e-15);
}

}  // namespace
}  // namespace apscope::detail
