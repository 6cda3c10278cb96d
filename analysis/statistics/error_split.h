// ErrorSplit: the parts of a squared error by cause (docs/definitions.md, section 15). They are the
// errors of the workers' messages by class of element, the error of the additions, and the cross
// terms.
//
//      U   underflow       of x != 0 that became 0
//      S   saturation      of x beyond the largest value, rounded to it
//      R   rounding        of all others
//      A   accumulation    the result minus the exact sum of the messages
//
//      e   = U + R + S + A
//      e^2 = U^2 + R^2 + S^2 + A^2 + 2 (U R + U S + U A + R S + R A + S A)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/bits.h"
#include "core/ulps.h"

namespace apscope::detail {

struct ErrorSplit {
    enum Part { underflow, rounding, saturation, accumulation, interaction, part_count };
    std::array<double, part_count> sums{};  // in the shape of core/fixed_shape_sum.h

    void merge(const ErrorSplit& next) {
        for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += next.sums[k];
    }
};

// Adds an error with the parts u, r, s and a; sum(k) is the sum of ErrorSplit::Part k.
template <class SumOf>
APSCOPE_HD void update_split(double u, double r, double s, double a, const SumOf& sum) {
    using S = ErrorSplit;
    sum(S::underflow) += u * u;
    sum(S::rounding) += r * r;
    sum(S::saturation) += s * s;
    sum(S::accumulation) += a * a;
    sum(S::interaction) += 2.0 * (u * (r + s + a) + (r * (s + a) + s * a));
}

// The error of an x that was sent as y: one member is y - x, the others are 0. All are 0 for a pair
// that is not finite.
struct SentError {
    double underflow, saturation, rounding;
};
APSCOPE_HD SentError sent_error(double x, double y, bool is_saturated) {
    const double e = y - x, error = e - e == 0.0 ? e : 0.0;
    const double kept = y == 0.0 ? 0.0 : error;  // the error of an x that did not become 0
    return {y == 0.0 ? error : 0.0, is_saturated ? kept : 0.0, is_saturated ? 0.0 : kept};
}
template <class SumOf>
APSCOPE_HD void update_sent_split(const SentError& e, const SumOf& sum) {
    using S = ErrorSplit;
    sum(S::underflow) += e.underflow * e.underflow;
    sum(S::rounding) += e.rounding * e.rounding;
    sum(S::saturation) += e.saturation * e.saturation;
}

// Adds an element: x, the exact sum of its messages, the result, and the exact sum's error due to
// underflow and saturation. A pair that is not finite adds nothing; an infinite exact sum with a
// finite result has no split.
template <class SumOf>
APSCOPE_HD void update_reduced_split(double x, double exact, double y, double underflow,
                                     double saturation, const SumOf& sum) {
    const double e = y - x;
    const bool counts = e - e == 0.0;
    const double u = counts ? underflow : 0.0, s = counts ? saturation : 0.0,
                 a = counts ? y - exact : 0.0;
    const double r = counts ? ((exact - x) - underflow) - saturation : 0.0;
    update_split(u, r, s, a, sum);
}

}  // namespace apscope::detail
