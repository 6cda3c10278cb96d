// The contribution of one pair of numbers, x and its result, to the statistics of an error: the
// formulas of docs/definitions.md over elements, for vector loops on the host and threads on a GPU.
#pragma once

#include <cstdint>

#include "analysis/statistics/error_statistics.h"
#include "core/ulps.h"

namespace apscope::detail {

// The first entries of ErrorStatistics::Sum, which are sums over pairs.
inline constexpr int error_sums = 7;

// Properties of a loop's numbers.
struct PairTraits {
    bool fuses = false;  // the products x^2, x y, y^2 are exact: fusing them with the addition
                         // changes no bit
    bool fuses_error = false;      // the product e^2 is exact, too
    bool knows_reference = false;  // the sums that depend only on x are known
};

template <bool Fused>
APSCOPE_HD void add_product(double& sum, double a, double b) {
    if constexpr (Fused) sum = __builtin_fma(a, b, sum);
    else sum += a * b;
}

// x and y are finite, e = y - x; sum(k) is the sum of ErrorStatistics::Sum k. is_zero: x = 0. If e
// is 0 for every x = 0, is_zero may be false, because the sign of such an e changes no sum: a sum
// starts at +0 and x + (-x) is +0, so a sum is never -0.
template <PairTraits T, class SumOf>
APSCOPE_HD void update_sums(double x, double y, double e, bool is_zero, const SumOf& sum) {
    using S = ErrorStatistics;
    const std::uint64_t sign = bits_cast<std::uint64_t>(x) & sign_bit<double>;
    const double turned = bits_cast<double>(bits_cast<std::uint64_t>(e) ^ sign);  // sign(x) e
    sum(S::error) += e;
    add_product<T.fuses_error>(sum(S::squared_error), e, e);
    if constexpr (!T.knows_reference) {
        add_product<T.fuses>(sum(S::squared_reference), x, x);
        sum(S::absolute_reference) += absolute(x);
    }
    sum(S::signed_error) += is_zero ? 0.0 : turned;
    add_product<T.fuses>(sum(S::product), x, y);
    add_product<T.fuses>(sum(S::squared_result), y, y);
}

template <Ulps How = Ulps::scaled>
APSCOPE_HD UlpScale ulp_scale(const FloatScale& s) {
    return ulp_scale<How>(s.cast.emin, s.cast.mantissa_bits, s.scale, s.units);
}

}  // namespace apscope::detail
