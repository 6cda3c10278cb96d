#include "emulation/schemes/codecs/optimal_levels.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

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
        at.push_back(std::clamp(static_cast<double>(static_cast<float>(low + share * range)), low,
                                sorted.back()));
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

}  // namespace

LevelSearch parse_level_search(std::string_view name) {
    if (name == "exact") return LevelSearch::exact;
    if (name == "fast") return LevelSearch::fast;
    if (name == "candidates") return LevelSearch::candidates;
    throw std::invalid_argument("method '" + std::string(name) +
                                "' is not one of exact, fast and candidates");
}

LevelChooser::LevelChooser(std::size_t k, LevelSearch search, std::size_t candidates)
    : k_(k), search_(search), candidates_(candidates) {
    if (k < 2)
        throw std::invalid_argument("k=" + std::to_string(k) + " levels; the ends alone are 2");
    if (candidates < 2)
        throw std::invalid_argument("candidates=" + std::to_string(candidates) +
                                    "; the ends alone are 2");
}

Row LevelChooser::levels(std::span<const double> x) {
    sorter_.sort(x, sorted_);
    const std::size_t few =
        search_ == LevelSearch::candidates ? std::max(k_, candidates_) : sorted_.size();
    distinct_.clear();
    for (const double v : sorted_) {
        if (!distinct_.empty() && v == distinct_.back()) continue;
        if (distinct_.size() > few) break;
        distinct_.push_back(v);
    }
    if (distinct_.size() <= k_) return distinct_;
    if (search_ == LevelSearch::candidates && distinct_.size() > candidates_)
        distinct_ = subset(sorted_, candidates_);
    if (distinct_.size() <= k_) return distinct_;
    LevelPoints points(sorted_, distinct_);
    if (search_ != LevelSearch::exact && points.size() < PricedLevels::most_points) {
        if (auto levels = priced_.find(points, k_)) return *std::move(levels);
    }
    return choose_levels(points, k_, search_ == LevelSearch::exact);
}

OptimalLevels optimal_levels(std::span<const double> x, std::size_t k, LevelSearch search,
                             std::size_t candidates) {
    LevelChooser chooser(k, search, candidates);
    const Row levels = chooser.levels(x);
    return {levels, variance_of(chooser.sorted(), levels)};
}

}  // namespace apscope::detail
