#include "emulation/codecs/optimal_levels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "emulation/simd.h"

namespace apscope {

namespace {

// An unevaluated sum of two fp64 numbers, about 106 bits: a segment's cost is a small difference of
// prefix sums that hold the whole tensor's squares.
struct Pair {
    double high = 0.0, low = 0.0;
};

Pair quick_sum(double a, double b) {  // |a| >= |b|
    const double s = a + b;
    return {s, b - (s - a)};
}

Pair operator+(Pair a, Pair b) {
    const double s = a.high + b.high, back = s - a.high;
    const double error = (a.high - (s - back)) + (b.high - back);
    return quick_sum(s, error + a.low + b.low);
}

Pair operator-(Pair a, Pair b) { return a + Pair{-b.high, -b.low}; }

Pair operator*(Pair a, double b) {
    const double p = a.high * b;
    return quick_sum(p, std::fma(a.high, b, -p) + a.low * b);
}

// Sums over the elements that are at most each point.
struct Points {
    Row at;  // ascending, distinct
    std::vector<Pair> count, sum, squares;

    // Of the elements from point i to point j; those at the ends cost nothing.
    double cost(std::size_t i, std::size_t j) const {
        const Pair s = sum[j] - sum[i], n = count[j] - count[i], q = squares[j] - squares[i];
        const Pair c = s * at[i] + s * at[j] - q - n * at[i] * at[j];
        return std::max(c.high, 0.0);
    }
};

Points points_of(const Row& sorted, const Row& at) {
    Points p;
    p.at = at;
    Pair count, sum, squares;
    std::size_t i = 0;
    for (const double point : at) {
        for (; i < sorted.size() && sorted[i] <= point; ++i) {
            count = count + Pair{1.0, 0.0};
            sum = sum + Pair{sorted[i], 0.0};
            squares = squares + Pair{sorted[i], 0.0} * sorted[i];
        }
        p.count.push_back(count);
        p.sum.push_back(sum);
        p.squares.push_back(squares);
    }
    return p;
}

// cost() in fp64 alone, for all i before j at once: `about[i]` lies within `error` of total T[i] + cost(i, j).
struct AboutTotals {
    static APSCOPE_INLINE void run(const double* before, const double* at, const double* sum, const double* count, const double* squares,
                                   std::size_t low, std::size_t end, std::size_t j, double* about, double* least) {
        const double at_j = at[j], sum_j = sum[j], count_j = count[j], squares_j = squares[j];
        for (std::size_t i = low; i < end; ++i) {
            const double s = sum_j - sum[i], n = count_j - count[i], q = squares_j - squares[i];
            about[i] = before[i] + (s * (at[i] + at_j) - q - n * at[i] * at_j);
        }
        constexpr std::size_t lanes = 16;  // a minimum of fp64 numbers is vector code only lane by lane
        double lane[lanes];
        for (double& l : lane) l = about[low];
        std::size_t i = low;
        for (; i + lanes <= end; i += lanes) {
            for (std::size_t l = 0; l < lanes; ++l) lane[l] = about[i + l] < lane[l] ? about[i + l] : lane[l];
        }
        for (; i < end; ++i) lane[0] = about[i] < lane[0] ? about[i] : lane[0];
        *least = *std::min_element(lane, lane + lanes);
    }
};

struct Layer {
    Row best;                       // T[., t]
    std::vector<std::size_t> from;  // the i that gave it
};

// Finds the best i for a j. Which i can be the best is seen in fp64; those few are compared by their exact cost.
class Search {
public:
    explicit Search(const Points& points) : points_(points), about_(points.at.size()) {
        for (std::size_t i = 0; i < points.at.size(); ++i) {
            sum_.push_back(points.sum[i].high);
            count_.push_back(points.count[i].high);
            squares_.push_back(points.squares[i].high);
        }
        // Every number on the way is at most 4 n amax^2, n elements; rounded less than 16 times by 2^-53 of it.
        const double amax = std::max(std::abs(points.at.front()), std::abs(points.at.back()));
        error_ = 0x1p-46 * count_.back() * amax * amax;
    }
    void find(const Row& before, Layer& layer, std::size_t j, std::size_t low, std::size_t high) {
        const std::size_t end = std::min(j, high + 1);
        if (low >= end) return;
        double least = 0.0;
        simd::run<AboutTotals>(before.data(), points_.at.data(), sum_.data(), count_.data(), squares_.data(), low, end, j, about_.data(), &least);
        // A cost below 0 counts as 0, so what is less than that apart may be equal.
        const double limit = least + 4 * error_;
        for (std::size_t i = low; i < end; ++i) {
            if (about_[i] > limit) continue;
            const double total = before[i] + points_.cost(i, j);
            if (total < layer.best[j]) {
                layer.best[j] = total;
                layer.from[j] = i;
            }
        }
    }

private:
    const Points& points_;
    Row about_, sum_, count_, squares_;
    double error_ = 0.0;
};

// Fills entries first..last - 1, their i between `low` and `high`, both included.
void fill(Search& search, const Row& before, Layer& layer, std::size_t first, std::size_t last, std::size_t low, std::size_t high, bool every) {
    if (first >= last) return;
    const std::size_t j = first + (last - first) / 2;
    search.find(before, layer, j, low, high);
    const std::size_t split = layer.from[j];
    fill(search, before, layer, first, j, low, every ? high : split, every);
    fill(search, before, layer, j + 1, last, every ? low : split, high, every);
}

// At most k of the points, both ends among them.
Row choose(const Points& points, std::size_t k, bool every) {
    const std::size_t n = points.at.size();
    Search search(points);
    std::vector<std::vector<std::size_t>> from;
    Layer layer{Row(n), std::vector<std::size_t>(n, 0)};
    for (std::size_t j = 0; j < n; ++j) layer.best[j] = points.cost(0, j);
    for (std::size_t t = 2; t < k; ++t) {
        // With one more point at point 0 itself nothing gets worse, so i = 0 stands for fewer points.
        Layer next{Row(n, std::numeric_limits<double>::infinity()), std::vector<std::size_t>(n, 0)};
        next.best[0] = 0.0;
        fill(search, layer.best, next, 1, n, 0, n - 1, every);
        from.push_back(next.from);
        layer = std::move(next);
    }
    Row chosen{points.at[n - 1]};
    std::size_t j = n - 1;
    for (auto f = from.rbegin(); f != from.rend() && j > 0; ++f) {
        j = (*f)[j];
        chosen.push_back(points.at[j]);
    }
    if (j > 0) chosen.push_back(points.at[0]);
    std::reverse(chosen.begin(), chosen.end());
    return chosen;
}

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

}  // namespace

LevelSearch parse_level_search(std::string_view name) {
    if (name == "exact") return LevelSearch::exact;
    if (name == "fast") return LevelSearch::fast;
    if (name == "candidates") return LevelSearch::candidates;
    throw std::invalid_argument("method '" + std::string(name) + "' is none of exact, fast and candidates");
}

OptimalLevels optimal_levels(std::span<const double> x, std::size_t k, LevelSearch search, std::size_t candidates) {
    if (k < 2) throw std::invalid_argument("k=" + std::to_string(k) + " levels; the ends alone are 2");
    if (candidates < 2) throw std::invalid_argument("candidates=" + std::to_string(candidates) + "; the ends alone are 2");
    Row sorted(x.begin(), x.end());
    for (double& v : sorted) v += 0.0;  // -0 and 0 are one element
    std::sort(sorted.begin(), sorted.end());
    Row distinct = sorted;
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    if (distinct.size() <= k) return {distinct, 0.0};
    const bool few = search == LevelSearch::candidates && distinct.size() > candidates;
    const Row at = few ? subset(sorted, candidates) : distinct;
    const Row levels = at.size() <= k ? at : choose(points_of(sorted, at), k, search == LevelSearch::exact);
    return {levels, variance_of(sorted, levels)};
}

}  // namespace apscope
