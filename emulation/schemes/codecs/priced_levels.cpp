#include "emulation/schemes/codecs/priced_levels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

constexpr std::size_t lanes = LevelPoints::padding;
using Lanes = double __attribute__((vector_size(8 * lanes)));
using HalfLanes = double __attribute__((vector_size(4 * lanes)));
using QuarterLanes = double __attribute__((vector_size(2 * lanes)));
static_assert(lanes == 8);
constexpr double infinity = std::numeric_limits<double>::infinity();

// Vectors are passed by reference, because the calling convention for values of 64 bytes depends on
// the instruction set.
APSCOPE_INLINE void load(const double* x, Lanes& v) { __builtin_memcpy(&v, x, sizeof v); }

APSCOPE_INLINE double least_of(const Lanes& v) {
    HalfLanes half[2];
    __builtin_memcpy(half, &v, sizeof v);
    half[0] = half[1] < half[0] ? half[1] : half[0];
    QuarterLanes quarter[2];
    __builtin_memcpy(quarter, half, sizeof quarter);
    quarter[0] = quarter[1] < quarter[0] ? quarter[1] : quarter[0];
    return quarter[0][1] < quarter[0][0] ? quarter[0][1] : quarter[0][0];
}

// behind[r] is added to the totals whose i is in lane r of the current vector of j, because only
// the j in later lanes may have this i.
constexpr double behind[lanes - 1][lanes] = {
    {infinity, 0, 0, 0, 0, 0, 0, 0},
    {infinity, infinity, 0, 0, 0, 0, 0, 0},
    {infinity, infinity, infinity, 0, 0, 0, 0, 0},
    {infinity, infinity, infinity, infinity, 0, 0, 0, 0},
    {infinity, infinity, infinity, infinity, infinity, 0, 0, 0},
    {infinity, infinity, infinity, infinity, infinity, infinity, 0, 0},
    {infinity, infinity, infinity, infinity, infinity, infinity, infinity, 0},
};

struct Paths {
    const double *at, *above, *bend;
    std::size_t count;
    double price, doubt;
    double* before;  // F[j] - bend[j]
    // For every vector of j, the least i that may give one of these j a total within `doubt` of the
    // best total.
    std::uint32_t* lowest;
};

// Sets lane r of `total` to the value whose minimum over i is F[j] - bend[j] - price (formula
// below), for i + r in place of i.
APSCOPE_INLINE void totals(const Paths& p, std::size_t i, std::size_t j, Lanes& total) {
    Lanes before, at, above;
    load(p.before + i, before);
    load(p.at + i, at);
    load(p.above + i, above);
    total = before + (p.at[j] * above - at * p.above[j]);
}

// Computes F[j] - bend[j] for all j. As bend[j] is the same for all i,
//
//      F[j] - bend[j] = price + min over i of (F[i] - bend[i]) + (at[j] above[i] - at[i] above[j])
//
// The loop computes one vector of j at a time. The i inside this vector come last, one after
// another, because their F must be known; they are skipped if the smallest F of the vector plus the
// price is above the largest F.
struct WalkPriced {
    static APSCOPE_INLINE void run(const Paths* given) {
        const Paths p = *given;
        p.before[0] = -p.bend[0];
        std::size_t low = 0;
        for (std::size_t first = 1; first < p.count; first += lanes) {
            Lanes at, above, bend;
            load(p.at + first, at);
            load(p.above + first, above);
            load(p.bend + first, bend);
            p.lowest[first / lanes] = static_cast<std::uint32_t>(low);
            // There are two minima, because with a single minimum each comparison would wait for
            // the one before.
            Lanes best = Lanes{} + infinity, other = best;
            std::size_t i = low;
            for (; i + 1 < first; i += 2) {
                const Lanes one = p.before[i] + (at * p.above[i] - p.at[i] * above);
                const Lanes two = p.before[i + 1] + (at * p.above[i + 1] - p.at[i + 1] * above);
                best = one < best ? one : best;
                other = two < other ? two : other;
            }
            if (i < first) {
                const Lanes one = p.before[i] + (at * p.above[i] - p.at[i] * above);
                best = one < best ? one : best;
            }
            best = other < best ? other : best;
            const Lanes f = best + bend;
            if (least_of(f) + p.price <= -least_of(-f)) {
#pragma GCC unroll 8
                for (std::size_t r = 0; r + 1 < lanes; ++r) {
                    Lanes barred;
                    load(behind[r], barred);
                    const Lanes total = ((best[r] + p.price) +
                                         (at * p.above[first + r] - p.at[first + r] * above)) +
                                        barred;
                    best = total < best ? total : best;
                }
            }
            const Lanes before = best + p.price;
            __builtin_memcpy(p.before + first, &before, sizeof before);
            // An i that is worse than the best i for the last j is at least as much worse for all
            // later j, because the costs satisfy the quadrangle inequality.
            const double limit = best[lanes - 1] + 2.0 * p.doubt;
            for (bool passes = first + lanes <= p.count; passes && low + lanes <= first;) {
                Lanes total;
                totals(p, low, first + lanes - 1, total);
                passes = least_of(total) > limit;
                low += passes ? lanes : 0;
            }
        }
    }
};

// Finds the best i of F[j], and the number of i whose totals are within `doubt` of the best total.
struct StepBack {
    static APSCOPE_INLINE void run(const Paths* given, std::size_t j, std::size_t* from,
                                   std::size_t* near) {
        const Paths p = *given;
        const std::size_t low = p.lowest[(j - 1) / lanes];
        double min = infinity;
        std::size_t best = 0, count = 0;
        for (std::size_t i = low; i < j; ++i) {
            const double total = p.before[i] + (p.at[j] * p.above[i] - p.at[i] * p.above[j]);
            best = total < min ? i : best;
            min = total < min ? total : min;
        }
        for (std::size_t i = low; i < j; ++i) {
            const double total = p.before[i] + (p.at[j] * p.above[i] - p.at[i] * p.above[j]);
            count += total <= min + p.doubt ? 1 : 0;
        }
        *from = best;
        *near = count;
    }
};

}  // namespace

std::optional<Row> PricedLevels::find(const LevelPoints& points, std::size_t k) {
    const std::size_t n = points.size(), inner = k - 1;
    const double undivided = points.at[n - 1] * points.above[0] -
                             points.at[0] * points.above[n - 1] +
                             (points.bend[n - 1] - points.bend[0]);
    if (!(undivided > 0.0) || !std::isfinite(undivided)) return std::nullopt;
    before_.resize(n + 2 * lanes, 0.0);
    lowest_.resize(n / lanes + 1, 0.0);
    const double m = static_cast<double>(inner);
    // The error of a total is at most 2 points.error, because the price is not larger than the
    // largest cost. An omitted i can be better only by the rounding errors of three totals. So in
    // each segment another path can be better by the errors of three totals, and the best path
    // worse by the same amount.
    const double doubt = 16.0 * points.error * m;
    Paths paths{points.at.data(), points.above.data(), points.bend.data(), n, 0.0, doubt,
                before_.data(),   lowest_.data()};

    // The cost is about inversely proportional to the square of the number of segments, so the
    // price at which one more segment pays is about inversely proportional to the cube of this
    // number.
    paths.price = undivided * (price_ > 0.0 ? price_ : 1.0 / (m * m * m));
    double low = 0.0, high = undivided;
    Row levels;
    constexpr int tries = 24;
    for (int t = 0; t < tries; ++t) {
        simd::run<WalkPriced>(&paths);
        levels.assign(1, points.at[n - 1]);
        bool is_only_one = true;
        for (std::size_t j = n - 1; j > 0;) {
            std::size_t from = 0, near = 0;
            simd::run<StepBack>(&paths, j, &from, &near);
            is_only_one = is_only_one && near == 1;
            levels.push_back(points.at[from]);
            j = from;
        }
        const std::size_t segments = levels.size() - 1;
        if (segments == inner) {
            if (!is_only_one) return std::nullopt;
            price_ = paths.price / undivided;
            std::reverse(levels.begin(), levels.end());
            return levels;
        }
        (segments > inner ? low : high) = paths.price;
        const double ratio = static_cast<double>(segments) / m,
                     guess = paths.price * (ratio * ratio * ratio);
        const bool halves = t > 3 && low > 0.0;  // the estimates may approach from one side only
        paths.price = guess > low && guess < high && !halves ? guess
                      : low > 0.0                            ? std::sqrt(low) * std::sqrt(high)
                                                             : high / 8.0;
        if (!(paths.price > low && paths.price < high)) return std::nullopt;
    }
    return std::nullopt;
}

}  // namespace apscope::detail
