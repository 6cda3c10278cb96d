// The moments of stochastic rounding: the two neighbours of a value, the probability of the upper
// one with N random bits, and from them the bias and the variance of one rounding
// (docs/definitions.md, section 5).
#pragma once

#include "core/rounding.h"

namespace apscope::detail {

struct RoundingMoments {
    double bias;      // E[rounded] - v
    double variance;  // Var[rounded]
    bool defined;     // false if a draw can overflow, or v is not finite
};

// The moments of one stochastic rounding of v to the cast's format.
APSCOPE_HD RoundingMoments stochastic_moments(double v, const Cast<double>& cast) {
    const std::uint64_t magnitude = bits_cast<std::uint64_t>(v) & ~sign_bit<double>;
    const double size = bits_cast<double>(magnitude);
    if (magnitude == 0) return {0.0, 0.0, true};
    if (magnitude >= infinity_bits<double>) return {0.0, 0.0, false};

    double low, gap;
    Eta eta;
    if (magnitude > cast.gap_low && magnitude < cast.gap_high) {
        low = bits_cast<double>(cast.gap_low);
        gap = bits_cast<double>(cast.gap_high) - low;
        GapPlace place = gap_place<double>(magnitude, cast);
        eta = next_digits(place);
    } else {
        low = bits_cast<double>(
            round_magnitude<RoundingMode::toward_zero, double>(magnitude, false, cast, 0));
        const int exponent = exponent_of<double>(magnitude);
        const int quantum_exponent =
            (exponent > cast.emin ? exponent : cast.emin) - cast.mantissa_bits;
        gap = bits_cast<double>(static_cast<std::uint64_t>(quantum_exponent + 1023) << 52);
        // `rest` has the significand bits of v below the quantum, as in core/rounding.h.
        const int shift = quantum_exponent - (exponent - 52);
        const std::uint64_t significand =
            (magnitude & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
        const std::uint64_t rest = shift >= 64  ? significand
                                   : shift <= 0 ? 0
                                                : significand & ((std::uint64_t{1} << shift) - 1);
        eta = eta_of(rest, shift);
    }
    const UpCount up = up_count(cast.rounding, eta, cast.random_bits);
    const double p = up.all ? 1.0 : static_cast<double>(up.count) * 0x1p-64;
    const double sign = bits_cast<std::uint64_t>(v) >> 63 ? -1.0 : 1.0;
    const double largest = bits_cast<double>(cast.largest);
    if (cast.saturates && low >= largest) return {sign * (largest - size), 0.0, true};
    if (low > largest || (low + gap > largest && p != 0)) return {0.0, 0.0, false};
    return {sign * (p * gap - (size - low)), p * (1.0 - p) * (gap * gap), true};
}

}  // namespace apscope::detail
