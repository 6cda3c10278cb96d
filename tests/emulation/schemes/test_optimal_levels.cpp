// The search of variance-optimal levels chooses the same points as a plain dynamic programme, which
// computes the exact cost of every i: on every instruction set, with ties, duplicates and numbers
// of every size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "emulation/schemes/codecs/ascending.h"
#include "emulation/schemes/codecs/level_points.h"
#include "emulation/schemes/codecs/level_search.h"
#include "emulation/schemes/codecs/optimal_levels.h"
#include "emulation/schemes/codecs/pair_sum.h"
#include "emulation/schemes/codecs/priced_levels.h"
#include "tests/support/on_level.h"

namespace apscope::detail {
namespace {

// Prefix sums and the programme as optimal_levels.h writes it down; the first i of several with the
// same total is taken.
struct Plain {
    Row at;
    std::vector<Pair> count, sum, squares;

    Plain(const Row& sorted, const Row& points) : at(points) {
        Pair n, s, q;
        std::size_t i = 0;
        for (const double point : at) {
            for (; i < sorted.size() && sorted[i] <= point; ++i) {
                n = n + Pair{1.0, 0.0};
                s = s + Pair{sorted[i], 0.0};
                q = q + Pair{sorted[i], 0.0} * sorted[i];
            }
            count.push_back(n);
            sum.push_back(s);
            squares.push_back(q);
        }
    }
    double cost(std::size_t i, std::size_t j) const {
        const Pair s = sum[j] - sum[i], n = count[j] - count[i], q = squares[j] - squares[i];
        return std::max((s * at[i] + s * at[j] - q - n * at[i] * at[j]).high, 0.0);
    }
    void fill(const Row& before, Row& best, std::vector<std::size_t>& from, std::size_t first,
              std::size_t last, std::size_t low, std::size_t high, bool every) const {
        if (first >= last) return;
        const std::size_t j = first + (last - first) / 2;
        for (std::size_t i = low; i <= high && i < j; ++i) {
            const double total = before[i] + cost(i, j);
            if (total >= best[j]) continue;
            best[j] = total;
            from[j] = i;
        }
        const std::size_t split = from[j];
        fill(before, best, from, first, j, low, every ? high : split, every);
        fill(before, best, from, j + 1, last, every ? low : split, high, every);
    }
    Row levels(std::size_t k, bool every) const {
        const std::size_t n = at.size();
        Row best(n);
        for (std::size_t j = 0; j < n; ++j) best[j] = cost(0, j);
        std::vector<std::vector<std::size_t>> ways;
        for (std::size_t t = 2; t < k; ++t) {
            Row next(n, std::numeric_limits<double>::infinity());
            next[0] = 0.0;
            ways.emplace_back(n, 0);
            fill(best, next, ways.back(), 1, n, 0, n - 1, every);
            best = next;
        }
        std::set<double> chosen{at[0], at[n - 1]};
        std::size_t j = n - 1;
        for (std::size_t t = ways.size(); t-- > 0;) {
            j = ways[t][j];
            chosen.insert(at[j]);
        }
        return {chosen.begin(), chosen.end()};
    }
};

Row distinct(Row sorted) {
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    return sorted;
}

// Ascending data of kinds that are difficult for the search.
struct Data {
    std::string name;
    Row sorted;
};
std::vector<Data> data(std::size_t n, std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    std::vector<Data> all;
    const auto add = [&](const char* name, auto&& value) {
        Row row;
        for (std::size_t i = 0; i < n; ++i)
            row.push_back(static_cast<float>(value(static_cast<double>(i))) + 0.0);
        std::sort(row.begin(), row.end());
        all.push_back({name, row});
    };
    add("normal", [&](double) { return normal(random); });
    add("even steps: every cost has equals", [](double i) { return i; });
    add("even steps of both signs", [n](double i) { return i - static_cast<double>(n / 2); });
    add("even steps of huge numbers",
        [n](double i) { return (i - static_cast<double>(n / 2)) * 0x1p118; });
    add("neighbouring fp32 numbers", [](double i) { return 1.0 + i * 0x1p-23; });
    add("the least fp32 numbers", [](double i) { return i * 0x1p-149; });
    add("few different numbers", [&](double) { return std::rint(normal(random) * 3.0); });
    add("a mirror image", [&random, &normal, seen = Row{}](double) mutable {
        if (seen.size() % 2 == 0) seen.push_back(normal(random));
        else seen.push_back(-seen.back());
        return seen.back();
    });
    add("tiny beside huge",
        [&](double) { return normal(random) * (random() % 8 == 0 ? 1e30 : 1e-6); });
    add("powers of two", [](double i) {
        return std::ldexp(static_cast<int>(i) % 2 == 0 ? 1.0 : -1.0,
                          static_cast<int>(i) % 250 - 125);
    });
    add("the ends of fp32", [&](double i) {
        return i == 0 ? -FLT_MAX : i == 1 ? FLT_MAX : normal(random) * 1e37;
    });
    add("two heaps", [&](double i) {
        return normal(random) * 1e-4 + (static_cast<int>(i) % 2 == 0 ? -1.0 : 1.0);
    });
    return all;
}

class OptimalLevels : public OnLevel {};

TEST_P(OptimalLevels, AreThePlainProgrammes) {
    std::mt19937_64 random(7);
    for (const std::size_t n : {3, 4, 5, 8, 9, 10, 16, 17, 31, 64, 100, 257, 512}) {
        for (const Data& d : data(n, random)) {
            const Row points = distinct(d.sorted);
            const Plain plain(d.sorted, points);
            for (const std::size_t k : {2, 3, 4, 7, 16, 60}) {
                if (points.size() <= k) continue;
                for (const bool every : {false, true}) {
                    if (every && n > 100 && k > 7) continue;
                    const Row expected = plain.levels(k, every);
                    const Row found =
                        optimal_levels(d.sorted, k, every ? LevelSearch::exact : LevelSearch::fast)
                            .levels;
                    ASSERT_EQ(found, expected)
                        << d.name << ", n=" << n << ", k=" << k << ", every=" << every;
                }
            }
        }
    }
}

TEST_P(OptimalLevels, AmongCandidatesToo) {
    std::mt19937_64 random(8);
    for (const std::size_t n : {50, 300, 1000}) {
        for (const Data& d : data(n, random)) {
            Row points;  // some elements, some numbers between them
            for (std::size_t i = 0; i < n; ++i) {
                if (i == 0 || i + 1 == n || random() % 4 == 0) points.push_back(d.sorted[i]);
                if (i > 0 && random() % 8 == 0)
                    points.push_back(static_cast<float>((d.sorted[i - 1] + d.sorted[i]) / 2));
            }
            std::sort(points.begin(), points.end());
            points = distinct(points);
            const Plain plain(d.sorted, points);
            for (const std::size_t k : {2, 3, 5, 16}) {
                if (points.size() <= k) continue;
                LevelPoints prepared(d.sorted, points);
                ASSERT_EQ(choose_levels(prepared, k, false), plain.levels(k, false))
                    << d.name << ", n=" << n << ", k=" << k;
            }
        }
    }
}

// The search without layers (PricedLevels) gives the same points or none; for normal data it nearly
// always gives points.
TEST_P(OptimalLevels, ByAPrice) {
    std::mt19937_64 random(10);
    int asked = 0, found = 0;
    for (const std::size_t n : {3, 9, 17, 64, 100, 257, 512}) {
        PricedLevels priced;
        for (const Data& d : data(n, random)) {
            const Row points = distinct(d.sorted);
            const Plain plain(d.sorted, points);
            for (const std::size_t k : {2, 3, 4, 7, 16, 60}) {
                if (points.size() <= k) continue;
                const std::optional<Row> levels = priced.find(LevelPoints(d.sorted, points), k);
                if (levels) {
                    ASSERT_EQ(*levels, plain.levels(k, false))
                        << d.name << ", n=" << n << ", k=" << k;
                }
                asked += d.name == "normal";
                found += levels && d.name == "normal";
            }
        }
    }
    EXPECT_GE(found, asked - asked / 10);
}

TEST_P(OptimalLevels, NoPriceTellsEqualsApart) {
    Row even;
    for (int i = 0; i < 100; ++i) even.push_back(i);
    EXPECT_FALSE(PricedLevels().find(LevelPoints(even, even), 8));
}

TEST_P(OptimalLevels, RowsAreSortedByTheirBits) {
    std::mt19937_64 random(11);
    AscendingSort sorter;
    for (const std::size_t n :
         {0, 1, 2, 15, 16, 17, 33, 100, 511, 512, 513, 2000, 4096, 4097, 5000}) {
        for (const Data& d : data(n, random)) {
            Row x = d.sorted, sorted;
            std::shuffle(x.begin(), x.end(), random);
            if (!x.empty()) x.back() = -0.0;
            sorter.sort(x, sorted);
            for (double& v : x) v += 0.0;
            std::sort(x.begin(), x.end());
            ASSERT_EQ(sorted, x) << d.name << ", n=" << n;
            ASSERT_TRUE(std::none_of(sorted.begin(), sorted.end(),
                                     [](double v) { return v == 0.0 && std::signbit(v); }));
        }
    }
}

// The error bound that the search assumes for fp64 totals is far above their actual errors.
TEST_P(OptimalLevels, CostsInFp64KeepWithinTheirError) {
    std::mt19937_64 random(9);
    for (const Data& d : data(200, random)) {
        const Row points = distinct(d.sorted);
        if (points.size() < 2) continue;
        const Plain plain(d.sorted, points);
        const LevelPoints p(d.sorted, points);
        for (std::size_t j = 1; j < points.size(); ++j) {
            for (std::size_t i = 0; i < j; ++i) {
                const double about =
                    p.at[j] * p.above[i] - p.at[i] * p.above[j] + p.bend[j] - p.bend[i];
                ASSERT_LE(std::abs(about - plain.cost(i, j)), p.error / 8)
                    << d.name << ", " << i << " to " << j;
            }
        }
    }
}

APSCOPE_ON_EVERY_LEVEL(OptimalLevels);

}  // namespace
}  // namespace apscope::detail
