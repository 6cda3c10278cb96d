// The search computes T[j, t] of optimal_levels.h. For each j, it finds the first i with the
// smallest exact total T[i, t - 1] + cost(i, j): a cost has about 100 bits, and the total is
// rounded once. Usually totals in fp64 suffice, because no other total is within rounding errors of
// the smallest. Exact totals are computed, and stored, only if another total is that near the
// smallest.
#include "emulation/schemes/codecs/level_search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::size_t few = LevelPoints::padding;

// A point j of the search. The best i of j lies between the best i of the points `left` and
// `right`.
struct Node {
    std::uint32_t j, left, right;
};

// The nodes of divide and conquer over points 1..n - 1, ordered by level, because a node depends
// only on nodes of earlier levels. The first range lies between points 0 and n.
struct Tree {
    Buffer<Node> nodes;
    std::vector<std::size_t> ends;     // index of the first node after each level
    std::vector<std::size_t> to_last;  // the nodes that point n - 1 depends on

    explicit Tree(std::size_t n) {
        struct Range {
            std::size_t first, last, left, right;
        };
        std::vector<Range> level{{1, n, 0, n}}, next;
        for (; !level.empty(); level.swap(next)) {
            next.clear();
            for (const Range& r : level) {
                const std::size_t j = r.first + (r.last - r.first) / 2;
                if (r.right == n) to_last.push_back(nodes.size());
                nodes.push_back({static_cast<std::uint32_t>(j), static_cast<std::uint32_t>(r.left),
                                 static_cast<std::uint32_t>(r.right)});
                if (r.first < j) next.push_back({r.first, j, r.left, j});
                if (j + 1 < r.last) next.push_back({j + 1, r.last, j, r.right});
            }
            ends.push_back(nodes.size());
        }
    }
};

// The arrays of the loops, each with n numbers and padding.
struct Arrays {
    const double *at, *above, *bend;
    const double* before;  // T[i, t - 1] - bend[i]
    double* total;         // T[j, t] in fp64
    std::uint32_t* from;   // the best i
    double* scratch;
    double doubt;  // totals whose fp64 values differ by less may be equal
    bool every;
};

// `total` is the least of several totals. `hits` is one_hit times the number of totals within
// `doubt` of the least, plus the sum of the indices of these totals.
struct Minimum {
    double total;
    std::int64_t hits;
};
constexpr std::int64_t one_hit = std::int64_t{1} << 32;  // larger than any index

// The minimum of up to `few` totals, without a branch. `unroll 1`, because g++ would unroll such
// short loops before it could vectorise them.
APSCOPE_INLINE Minimum min_of_few(const double* before, const double* at, const double* above,
                                  std::size_t range, double at_j, double above_j, double doubt) {
    double v[few], w[few / 2];
    const double length = static_cast<double>(range);
#pragma GCC unroll 1
    for (std::size_t l = 0; l < few; ++l) {
        const double total = before[l] + (at_j * above[l] - at[l] * above_j);
        v[l] = static_cast<double>(l) < length ? total : infinity;
    }
#pragma GCC unroll 1
    for (std::size_t l = 0; l < few / 2; ++l) w[l] = v[l + few / 2] < v[l] ? v[l + few / 2] : v[l];
    const double even = w[2] < w[0] ? w[2] : w[0], odd = w[3] < w[1] ? w[3] : w[1],
                 min = odd < even ? odd : even;
    std::int64_t hits = 0;
#pragma GCC unroll 1
    for (std::size_t l = 0; l < few; ++l)
        hits += v[l] <= min + doubt ? one_hit | static_cast<std::int64_t>(l) : 0;
    return {min, hits};
}

// The minimum of any number of totals, computed in groups of `few`; v has room for complete groups.
APSCOPE_INLINE Minimum min_of_many(const double* before, const double* at, const double* above,
                                   std::size_t range, double at_j, double above_j, double doubt,
                                   double* v) {
    double w[few];
    for (double& l : w) l = infinity;
    for (std::size_t i = 0; i < range; i += few) {
        const double length = static_cast<double>(range - i);
#pragma GCC ivdep  // v does not overlap the inputs
#pragma GCC unroll 1
        for (std::size_t l = 0; l < few; ++l) {
            const double total = before[i + l] + (at_j * above[i + l] - at[i + l] * above_j);
            const double bounded = static_cast<double>(l) < length ? total : infinity;
            v[i + l] = bounded;
            w[l] = bounded < w[l] ? bounded : w[l];
        }
    }
    double min = w[0];
    for (std::size_t l = 1; l < few; ++l) min = w[l] < min ? w[l] : min;
    const double limit = min + doubt;
    std::int64_t hits = 0;
    const auto rounded_up = static_cast<std::int64_t>((range + few - 1) / few * few);
    for (std::int64_t i = 0; i < rounded_up; ++i) hits += v[i] <= limit ? one_hit | i : 0;
    return {min, hits};
}

// Finds the best i of some nodes of a level; `unsure` receives the nodes for which another total is
// near the best.
struct FindBest {
    static APSCOPE_INLINE void run(const Node* nodes, std::size_t count, const Arrays* given,
                                   std::uint32_t* unsure, std::size_t* unsure_count) {
        const Arrays a = *given;
        std::size_t doubtful = 0;
        for (std::size_t node = 0; node < count; ++node) {
            const std::size_t j = nodes[node].j;
            const std::size_t low = a.every ? 0 : a.from[nodes[node].left];
            const std::size_t end =
                a.every ? j : std::min<std::size_t>(j, a.from[nodes[node].right] + std::size_t{1});
            const double *before = a.before + low, *at = a.at + low, *above = a.above + low;
            const Minimum min =
                end - low <= few
                    ? min_of_few(before, at, above, end - low, a.at[j], a.above[j], a.doubt)
                    : min_of_many(before, at, above, end - low, a.at[j], a.above[j], a.doubt,
                                  a.scratch);
            a.from[j] = static_cast<std::uint32_t>(
                low + static_cast<std::size_t>(min.hits & (one_hit - 1)));
            a.total[j] = min.total + a.bend[j];
            unsure[doubtful] = static_cast<std::uint32_t>(node);
            doubtful += min.hits >> 32 != 1;
        }
        *unsure_count = doubtful;
    }
};

class Search {
public:
    Search(LevelPoints& points, std::size_t k, bool every)
        : points_(points), k_(k), every_(every), tree_(points.size()) {}

    Row run() {
        const std::size_t n = points_.size();
        Row before(n + few, 0.0), scratch(n + few, 0.0);
        total_.resize(n + few, 0.0);
        for (std::size_t j = 0; j < n; ++j)
            total_[j] = points_.at[j] * points_.above[0] - points_.at[0] * points_.above[j] -
                        points_.bend[0] + points_.bend[j];
        Buffer<std::uint32_t> unsure(n);
        for (std::size_t t = 2; t < k_; ++t) {
            // A level at point 0 that occurs twice does not change the cost, so i = 0 represents
            // solutions with fewer levels.
            from_.emplace_back(n + 1, 0).back() = static_cast<std::uint32_t>(n - 1);
            for (std::size_t i = 0; i < n; ++i) before[i] = total_[i] - points_.bend[i];
            // The error of each of two compared totals is below t times `error`.
            const double doubt = 2 * static_cast<double>(t) * points_.error;
            const Arrays arrays{points_.at.data(),
                                points_.above.data(),
                                points_.bend.data(),
                                before.data(),
                                total_.data(),
                                from_.back().data(),
                                scratch.data(),
                                doubt,
                                every_};
            const auto find = [&](std::size_t first, std::size_t count) {
                std::size_t doubtful = 0;
                simd::run<FindBest>(tree_.nodes.data() + first, count, &arrays, unsure.data(),
                                    &doubtful);
                for (std::size_t u = 0; u < doubtful; ++u)
                    decide(tree_.nodes[first + unsure[u]], t, before, doubt);
            };
            if (t + 1 == k_) {
                for (const std::size_t node : tree_.to_last) find(node, 1);
            } else {
                std::size_t first = 0;
                for (const std::size_t end : tree_.ends) {
                    find(first, end - first);
                    first = end;
                }
            }
        }
        return levels();
    }

private:
    void decide(const Node& node, std::size_t t, const Row& before, double doubt) {
        Buffer<std::uint32_t>& from = from_.back();
        const std::size_t j = node.j;
        const std::size_t low = every_ ? 0 : from[node.left],
                          end = every_
                                    ? j
                                    : std::min<std::size_t>(j, from[node.right] + std::size_t{1});
        const double at_j = points_.at[j], above_j = points_.above[j];
        const auto about = [&](std::size_t i) {
            return before[i] + (at_j * points_.above[i] - points_.at[i] * above_j);
        };
        const double limit = (total_[j] - points_.bend[j]) + 1.5 * doubt;
        double min = infinity;
        for (std::size_t i = low; i < end; ++i) {
            if (about(i) > limit) continue;
            const double total = exact_total(i, t - 1) + points_.exact_cost(i, j);
            if (total >= min) continue;
            min = total;
            from[j] = static_cast<std::uint32_t>(i);
        }
        exact_at(t)[j] = min;
    }

    // The exact T[., t]; NaN at points that were not requested yet.
    Row& exact_at(std::size_t t) {
        while (exact_.size() <= t) exact_.emplace_back();
        if (exact_[t].empty()) exact_[t].assign(points_.size(), std::nan(""));
        return exact_[t];
    }
    double exact_total(std::size_t j, std::size_t t) {
        std::vector<std::size_t> way;  // the j of the layers above the first known total
        while (j > 0 && t > 1 && std::isnan(exact_at(t)[j])) {
            way.push_back(j);
            j = from_[t - 2][j];
            --t;
        }
        double total = j == 0 && t > 1 ? 0.0 : t == 1 ? points_.exact_cost(0, j) : exact_[t][j];
        for (; !way.empty(); way.pop_back()) {
            total += points_.exact_cost(j, way.back());
            j = way.back();
            exact_[++t][j] = total;
        }
        return total;
    }

    Row levels() const {
        std::size_t j = points_.size() - 1;
        Row chosen{points_.at[j]};
        for (auto f = from_.rbegin(); f != from_.rend() && j > 0; ++f) {
            j = (*f)[j];
            chosen.push_back(points_.at[j]);
        }
        if (j > 0) chosen.push_back(points_.at[0]);
        std::reverse(chosen.begin(), chosen.end());
        return chosen;
    }

    LevelPoints& points_;
    std::size_t k_;
    bool every_;
    Tree tree_;
    Row total_;                                // T[., t] in fp64
    std::vector<Buffer<std::uint32_t>> from_;  // the best i of layers 2, 3, ...
    std::vector<Row> exact_;                   // exact totals by layer
};

}  // namespace

Row choose_levels(LevelPoints& points, std::size_t k, bool every) {
    return Search(points, k, every).run();
}

}  // namespace apscope::detail
