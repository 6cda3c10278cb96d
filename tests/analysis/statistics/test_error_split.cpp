// The split of an error compared with its definition, element by element, on every instruction set
// of this machine: one term per element, blocks of any length, pairs that are not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "analysis/statistics/split_kernels.h"
#include "core/philox.h"
#include "core/rounding.h"
#include "tests/support/on_level.h"

namespace apscope::detail {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(),
                 nan = std::numeric_limits<double>::quiet_NaN();
constexpr double largest = 4.0, scale = 2.0;

struct Sent {
    std::vector<double> x, y, codes;
};

// Numbers and their results: near the number, lost (0), clipped at the largest code, infinite, NaN.
Sent sent_values(std::size_t count, std::uint64_t seed, bool specials) {
    const RandomStream stream = array_stream(seed, 64);
    Sent s;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t word = stream.at(i);
        const double sign = word >> 63 != 0 ? -1.0 : 1.0,
                     size = std::ldexp(static_cast<double>(word >> 20 & 0xFFFFF) + 1.0, -22);
        double x = sign * size, y = sign * std::ldexp(std::nearbyint(std::ldexp(size, 4)), -4);
        switch (word % 8) {
            case 0: y = 0.0 * sign; break;
            case 1: x = y = 0.0; break;
            case 2:
                x *= 1000.0;
                y = sign * largest / scale;
                break;
            case 3:
                x = sign * largest / scale;
                y = x;
                break;  // the largest value itself, not beyond it
            default: break;
        }
        if (specials && word % 11 == 0) y = word % 2 != 0 ? infinity : nan;
        if (specials && word % 13 == 0) x = word % 3 != 0 ? -infinity : nan;
        s.x.push_back(x);
        s.y.push_back(y);
        s.codes.push_back(y * scale);
    }
    return s;
}

class SplitErrors : public OnLevel {};

TEST_P(SplitErrors, SentElementsHaveOneClassEach) {
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{1000}, sum_block}) {
        const Sent s = sent_values(count, count, true);
        std::vector<double> lost(count, 0.25), clipped(count, -0.5), terms[3];
        for (auto& t : terms) t.assign(count, 0.0);
        for (std::size_t i = 0; i < count; ++i) {
            if (!std::isfinite(s.x[i]) || !std::isfinite(s.y[i])) continue;
            const double e = s.y[i] - s.x[i];
            if (s.x[i] != 0.0 && s.y[i] == 0.0) {
                lost[i] += e;
                terms[0][i] = e * e;
            } else if (std::abs(s.x[i]) * scale > largest && std::abs(s.codes[i]) == largest) {
                clipped[i] += e;
                terms[1][i] = e * e;
            } else {
                terms[2][i] = e * e;
            }
        }
        std::vector<double> found_lost(count, 0.25), found_clipped(count, -0.5);
        ErrorSplit found;
        simd::run<SplitSent<double, BeyondLargest<double>>>(
            s.x.data(), s.y.data(),
            BeyondLargest<double>{s.x.data(), s.codes.data(), scale, largest}, count,
            found_lost.data(), found_clipped.data(), &found);
        EXPECT_EQ(found_lost, lost);
        EXPECT_EQ(found_clipped, clipped);
        const ErrorSplit::Part parts[] = {ErrorSplit::underflow, ErrorSplit::saturation,
                                          ErrorSplit::rounding};
        for (int k = 0; k < 3; ++k)
            EXPECT_EQ(found.sums[parts[k]],
                      block_sum(count, [&](std::size_t i) { return terms[k][i]; }))
                << k;
        EXPECT_EQ(found.sums[ErrorSplit::accumulation], 0.0);
        EXPECT_EQ(found.sums[ErrorSplit::interaction], 0.0);
    }
}

TEST_P(SplitErrors, ReducedElementsSplitIntoFourPartsAndTheirProducts) {
    for (const std::size_t count : {std::size_t{3}, std::size_t{16}, std::size_t{777}, sum_block}) {
        const Sent s = sent_values(count, 3 * count, true);
        const Sent others = sent_values(count, 5 * count, false);
        const std::vector<double>&x = s.x, &y = s.y, &exact = others.x, &lost = others.y,
              &clipped = others.codes;
        std::vector<double> terms[ErrorSplit::part_count];
        for (auto& t : terms) t.assign(count, 0.0);
        double squared = 0.0, magnitude = 0.0;
        for (std::size_t i = 0; i < count; ++i) {
            if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
            const double u = lost[i], c = clipped[i], r = ((exact[i] - x[i]) - u) - c,
                         a = y[i] - exact[i];
            terms[ErrorSplit::underflow][i] = u * u;
            terms[ErrorSplit::rounding][i] = r * r;
            terms[ErrorSplit::saturation][i] = c * c;
            terms[ErrorSplit::accumulation][i] = a * a;
            terms[ErrorSplit::interaction][i] = 2.0 * (u * (r + c + a) + (r * (c + a) + c * a));
            squared += (y[i] - x[i]) * (y[i] - x[i]);
            magnitude += u * u + r * r + c * c + a * a;
        }
        ErrorSplit found;
        simd::run<SplitReduced<true>>(x.data(), exact.data(), y.data(), lost.data(), clipped.data(),
                                      count, &found);
        double total = 0.0;
        for (std::size_t k = 0; k < found.sums.size(); ++k) {
            EXPECT_EQ(found.sums[k], block_sum(count, [&](std::size_t i) { return terms[k][i]; }))
                << k;
            total += found.sums[k];
        }
        EXPECT_NEAR(total, squared,
                    0x1p-53 * (static_cast<double>(count) / 2048 + 600) * 4 * magnitude);
    }
}

TEST_P(SplitErrors, WithoutLostOrClippedElementsTheShortWayGivesTheSameBits) {
    const std::vector<double> zeros(sum_block, 0.0);
    for (const bool specials : {false, true}) {
        const Sent s = sent_values(sum_block - 5, 9, specials),
                   others = sent_values(sum_block - 5, 10, false);
        ErrorSplit full, brief;
        simd::run<SplitReduced<true>>(s.x.data(), others.x.data(), s.y.data(), zeros.data(),
                                      zeros.data(), s.x.size(), &full);
        simd::run<SplitReduced<false>>(s.x.data(), others.x.data(), s.y.data(), nullptr, nullptr,
                                       s.x.size(), &brief);
        EXPECT_EQ(full.sums, brief.sums);
        EXPECT_GT(full.sums[ErrorSplit::accumulation], 0.0);
    }
}

APSCOPE_ON_EVERY_LEVEL(SplitErrors);

TEST(ErrorSplit, AnExactSumThatIsNotFiniteLeavesNoSplit) {
    const double x = 1.0, exact = infinity, y = 2.0, zero = 0.0;
    ErrorSplit found;
    simd::run<SplitReduced<true>>(&x, &exact, &y, &zero, &zero, std::size_t{1}, &found);
    EXPECT_FALSE(std::isfinite(found.sums[ErrorSplit::accumulation]));
}

}  // namespace
}  // namespace apscope::detail
