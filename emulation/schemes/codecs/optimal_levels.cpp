#include "emulation/schemes/codecs/optimal_levels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "emulation/schemes/codecs/level_points.h"
#include "emulation/schemes/codecs/level_search.h"

namespace apscope::detail {

namespace {

void sort_distinct(Row& row) {
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
}

Row subset(const Row& sorted, std::size_t candidates) {
    Row at{sorted.front(), sorted.back()};
    const std::size_t half = candidates / 2, n = sorted.size();
    const double low = sorted.front(), range = sorted.back() - low;
    for (std::size_t c = 1; c < half; ++c) {
        const double share = static_cast<double>(c) / static_cast<double>(half);
        at.push_back(sorted[static_cast<std::size_t>(share * static_cast<double>(n - 1))]);
        at.push_back(std::clamp(static_cast<double>(static_cast<float>(low + share * range)), low, sorted.back()));
    }
    sort_distinct(at);
    return at;
}

double variance_of(const Row& sorted, const Row& levels) {
    double sum = 0.0;
    std::size_t above = 1;
    for (const double x : sorted) {
        while (above + 1 < levels.size() && x > levels[above]) ++above;
        if (above < levels.size()) sum += (x - levels[above - 1]) * (levels[above] - x);
    }
    return sum;
}

Row ascending(std::span<const double> x) {
    Row sorted(x.begin(), x.end());
    for (double& v : sorted) v += 0.0;  // -0 and 0 are one element
    std::sort(sorted.begin(), sorted.end());
    return sorted;
}

Row levels_of(const Row& sorted, std::size_t k, LevelSearch search, std::size_t candidates) {
    if (k < 2) throw std::invalid_argument("k=" + std::to_string(k) + " levels; the ends alone are 2");
    if (candidates < 2) throw std::invalid_argument("candidates=" + std::to_string(candidates) + "; the ends alone are 2");
    Row at = sorted;
    at.erase(std::unique(at.begin(), at.end()), at.end());
    if (at.size() <= k) return at;
    if (search == LevelSearch::candidates && at.size() > candidates) at = subset(sorted, candidates);
    if (at.size() <= k) return at;
    LevelPoints points(sorted, at);
    return choose_levels(points, k, search == LevelSearch::exact);
}

}  // namespace

LevelSearch parse_level_search(std::string_view name) {
    if (name == "exact") return LevelSearch::exact;
    if (name == "fast") return LevelSearch::fast;
    if (name == "candidates") return LevelSearch::candidates;
    throw std::invalid_argument("method '" + std::string(name) + "' is none of exact, fast and candidates");
}

OptimalLevels optimal_levels(std::span<const double> x, std::size_t k, LevelSearch search, std::size_t candidates) {
    const Row sorted = ascending(x), levels = levels_of(sorted, k, search, candidates);
    return {levels, variance_of(sorted, levels)};
}

Row best_levels(std::span<const double> x, std::size_t k, LevelSearch search, std::size_t candidates) {
    return levels_of(ascending(x), k, search, candidates);
}

}  // namespace apscope::detail
