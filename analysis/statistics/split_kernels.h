// The loops of ErrorSplit over one block, compiled per instruction set by simd::run(). Sums have
// the shape of core/fixed_shape_sum.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "analysis/statistics/error_split.h"
#include "core/fixed_shape_sum.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// Predicates that select the saturated elements of a block. NoneSaturated selects no element,
// Marked those with a nonzero mark, and BeyondLargest those whose |scale x| is above the largest
// code and whose code is the largest.
struct NoneSaturated {
    APSCOPE_INLINE bool operator()(std::size_t) const { return false; }
};
template <class Real>
struct BeyondLargest {
    const Real *x, *codes;
    double scale, largest;
    APSCOPE_INLINE bool operator()(std::size_t i) const {
        return is_saturated(absolute(static_cast<double>(x[i]) * scale),
                            absolute(static_cast<double>(codes[i])), largest);
    }
};
struct Marked {
    const double* marks;  // doubles, as wide as the sums, for vector code
    APSCOPE_INLINE bool operator()(std::size_t i) const { return marks[i] != 0.0; }
};

// Adds the errors of a block of messages to the sums of their classes, and each element's error to
// lost[i] (underflow) or clipped[i] (saturation), which are sums over the workers. NoneSaturated
// does not change `clipped`.
template <class Real, class Saturated>
struct SplitSent {
    static APSCOPE_INLINE void run(const Real* __restrict x, const Real* __restrict y,
                                   Saturated is_clipped, std::size_t count, double* __restrict lost,
                                   double* __restrict clipped, ErrorSplit* found) {
        LaneSums<ErrorSplit::part_count> sums;
        const auto add = [&](std::size_t i, std::size_t lane) __attribute__((always_inline)) {
            const double a = x[i], b = y[i];
            const SentError e = sent_error(a, b, is_clipped(i));
            lost[i] += e.underflow;
            if constexpr (!std::is_same_v<Saturated, NoneSaturated>) clipped[i] += e.saturation;
            update_sent_split(e, [&](int k) __attribute__((always_inline)) -> double& {
                return sums.lane[k][lane];
            });
        };
        std::size_t i = 0;
        for (; i + sum_lanes <= count; i += sum_lanes) {
            for (std::size_t lane = 0; lane < sum_lanes; ++lane) add(i + lane, lane);
        }
        for (std::size_t lane = 0; i + lane < count; ++lane) add(i + lane, lane);
        for (const int k : {ErrorSplit::underflow, ErrorSplit::rounding, ErrorSplit::saturation}) {
            found->sums[static_cast<std::size_t>(k)] += sums.join(static_cast<std::size_t>(k));
        }
    }
};

// Adds the errors of a block of reduced elements to the sums. Classed: some elements underflowed or
// saturated; if false, `lost` and `clipped` are not read and count as zero.
template <bool Classed>
struct SplitReduced {
    static APSCOPE_INLINE void run(const double* x, const double* exact, const double* y,
                                   const double* lost, const double* clipped, std::size_t count,
                                   ErrorSplit* found) {
        LaneSums<ErrorSplit::part_count> sums;
        const auto add = [&](std::size_t i, std::size_t lane) __attribute__((always_inline)) {
            const auto sum = [&](int k) __attribute__((always_inline)) -> double& {
                return sums.lane[k][lane];
            };
            if constexpr (Classed) {
                update_reduced_split(x[i], exact[i], y[i], lost[i], clipped[i], sum);
            } else {
                const bool counts = (y[i] - x[i]) - (y[i] - x[i]) == 0.0;
                const double r = counts ? exact[i] - x[i] : 0.0, a = counts ? y[i] - exact[i] : 0.0;
                sum(ErrorSplit::rounding) += r * r;
                sum(ErrorSplit::accumulation) += a * a;
                sum(ErrorSplit::interaction) += 2.0 * (r * a);
            }
        };
        std::size_t i = 0;
        for (; i + sum_lanes <= count; i += sum_lanes) {
            for (std::size_t lane = 0; lane < sum_lanes; ++lane) add(i + lane, lane);
        }
        for (std::size_t lane = 0; i + lane < count; ++lane) add(i + lane, lane);
        for (std::size_t k = 0; k < found->sums.size(); ++k) found->sums[k] += sums.join(k);
    }
};

}  // namespace apscope::detail
