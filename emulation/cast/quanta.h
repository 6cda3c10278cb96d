// Stochastic rounding in fp64 arithmetic, by the number of quanta (the spacing of the format's
// values around |x|) in a magnitude:
//
//      |x| = (k + eta) quantum        P(up) = floor(eta 2^N) / 2^N
//
// The quantum is a power of two, so that fp64 computes k and eta exactly. The moments
// (row_moments.h) and a GPU's sums (emulation/cuda/cast/quanta_rounding.h) use it.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/rounding.h"
#include "core/stochastic_moments.h"

namespace apscope::detail {

struct Quanta {
    double quantum, k, eta;
    double up;  // P(up), exactly
};

// A cast by RoundingMode::stochastic, prepared.
struct QuantaCast {
    std::uint64_t min_field, precision;  // emin and the mantissa bits in fp64's exponent field
    double draws, per_draw;              // 2^N and 2^-N

    APSCOPE_HD explicit QuantaCast(const Cast<double>& cast)
        : min_field(static_cast<std::uint64_t>(cast.emin + 1023) << 52),
          precision(static_cast<std::uint64_t>(cast.mantissa_bits) << 52),
          draws(bits_cast<double>(static_cast<std::uint64_t>(1023 + cast.random_bits) << 52)),
          per_draw(bits_cast<double>(static_cast<std::uint64_t>(1023 - cast.random_bits) << 52)) {}

    // Of a finite magnitude.
    APSCOPE_HD Quanta operator()(double size) const {
        constexpr std::uint64_t top = std::uint64_t{2046} << 52;  // 1 / 2^e has the field top - e
        const std::uint64_t exponent = bits_cast<std::uint64_t>(size) & infinity_bits<double>;
        const std::uint64_t field = (exponent > min_field ? exponent : min_field) - precision;
        const double quanta = size * bits_cast<double>(top - field), k = std::floor(quanta),
                     eta = quanta - k;
        return {bits_cast<double>(field), k, eta, std::floor(eta * draws) * per_draw};
    }
};

// The moments of rounding a finite magnitude with its quanta; without Limited, no draw can
// overflow.
template <bool Limited>
APSCOPE_HD RoundingMoments quanta_moments(double size, const Quanta& q, double largest,
                                          bool saturates) {
    const double bias = (q.up - q.eta) * q.quantum,
                 variance = q.up * (1.0 - q.up) * (q.quantum * q.quantum);
    if constexpr (!Limited) return {bias, variance, true};
    const double low = q.k * q.quantum;
    const bool stuck = saturates & (low >= largest);
    const bool lost = (!stuck) & ((low > largest) | ((low + q.quantum > largest) & (q.up != 0.0)));
    return {lost ? 0.0 : stuck ? largest - size : bias, lost | stuck ? 0.0 : variance, !lost};
}

// True if the inverse of every quantum and 2^N are normal fp64 numbers.
APSCOPE_HD bool quanta_serve(const Cast<double>& cast) {
    return cast.rounding == RoundingMode::stochastic && cast.gap_high == 0 &&
           cast.random_bits <= 48 && cast.mantissa_bits <= 23 &&
           cast.emin - cast.mantissa_bits >= -149;
}

}  // namespace apscope::detail
