#include "emulation/cast/row_moments.h"

#include <algorithm>
#include <limits>

#include "core/stochastic_moments.h"
#include "emulation/cast/quantize_buffers.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

// Computes stochastic_moments() for RoundingMode::stochastic. Every number is split into an integer
// number of quanta and a rest:
//
//      |x| = (k + eta) quantum        P(up) = floor(eta 2^N) / 2^N
//
// The results have the same bits: fp64 arithmetic computes k and eta exactly, and multiplications
// by the quantum, a power of two, change no rounding. A magnitude of at most `inside`, times
// `scale`, is at most the largest number, so its rounding cannot overflow.
template <class Real>
struct AddMoments {
    static APSCOPE_INLINE void run(const Real* row, std::size_t count, double scale,
                                   const Cast<double>* cast, BitsOf<Real> inside, double* bias,
                                   double* variance, bool* defined) {
        const std::uint64_t min_field = static_cast<std::uint64_t>(cast->emin + 1023) << 52,
                            m = static_cast<std::uint64_t>(cast->mantissa_bits) << 52;
        const std::uint64_t top = std::uint64_t{2046} << 52;
        const double largest = bits_cast<double>(cast->largest);
        const double draws =
            bits_cast<double>(static_cast<std::uint64_t>(1023 + cast->random_bits) << 52);
        const double per_draw =
            bits_cast<double>(static_cast<std::uint64_t>(1023 - cast->random_bits) << 52);
        const bool saturates = cast->saturates;
        std::uint64_t undefined = 0;
        by_overflow(
            row, count, inside,
            [&]<bool Limited>(std::size_t begin, std::size_t n) __attribute__((always_inline)) {
                for (std::size_t i = begin; i < begin + n; ++i) {
                    const std::uint64_t bits = bits_cast<std::uint64_t>(row[i] * scale),
                                        sign = bits & sign_bit<double>;
                    const bool finite = !Limited || (bits ^ sign) < infinity_bits<double>;
                    const double size =
                        bits_cast<double>(select(finite, bits ^ sign, std::uint64_t{0}));
                    const std::uint64_t exponent =
                        bits_cast<std::uint64_t>(size) & infinity_bits<double>;
                    const std::uint64_t field = (exponent > min_field ? exponent : min_field) - m;
                    const double gap = bits_cast<double>(field);
                    const double quanta = size * bits_cast<double>(top - field),
                                 k = __builtin_floor(quanta), eta = quanta - k;
                    const double p = __builtin_floor(eta * draws) * per_draw;
                    const double moved = (p - eta) * gap, spread = p * (1.0 - p) * (gap * gap);
                    if constexpr (Limited) {
                        const double low = k * gap;
                        const bool stuck = saturates & (low >= largest);
                        const bool lost =
                            (!finite) |
                            ((!stuck) & ((low > largest) | ((low + gap > largest) & (p != 0.0))));
                        const double turned = bits_cast<double>(
                            bits_cast<std::uint64_t>(stuck ? largest - size : moved) ^ sign);
                        bias[i] += lost ? 0.0 : turned;
                        variance[i] += (lost | stuck) ? 0.0 : spread;
                        undefined |= static_cast<std::uint64_t>(lost);
                    } else {
                        bias[i] += bits_cast<double>(bits_cast<std::uint64_t>(moved) ^ sign);
                        variance[i] += spread;
                    }
                }
            });
        *defined = undefined == 0;
    }
};

// A magnitude whose product with `scale` is at most `largest`: the largest one or slightly less.
template <class Real>
BitsOf<Real> largest_inside(double largest, double scale) {
    const double inside = largest / scale * (1.0 - 0x1p-20);
    if (!(inside > 0.0)) return 0;
    return bits_cast<BitsOf<Real>>(
        static_cast<Real>(std::min<double>(inside, std::numeric_limits<Real>::max())));
}

}  // namespace

template <class Real>
bool add_moments(const Real* row, std::size_t count, double scale, const Cast<double>& cast,
                 double* bias, double* variance) {
    bool defined = true;
    // Under these conditions, the inverse of the quantum and 2^N are normal fp64 numbers.
    const bool serves = cast.rounding == RoundingMode::stochastic && cast.gap_high == 0 &&
                        cast.random_bits <= 48 && cast.mantissa_bits <= 23 &&
                        cast.emin - cast.mantissa_bits >= -149;
    if (serves) {
        simd::run<AddMoments<Real>>(row, count, scale, &cast,
                                    largest_inside<Real>(bits_cast<double>(cast.largest), scale),
                                    bias, variance, &defined);
        return defined;
    }
    for (std::size_t i = 0; i < count; ++i) {
        const RoundingMoments m = stochastic_moments(row[i] * scale, cast);
        bias[i] += m.bias;
        variance[i] += m.variance;
        defined = defined && m.defined;
    }
    return defined;
}
template bool add_moments(const float*, std::size_t, double, const Cast<double>&, double*, double*);
template bool add_moments(const double*, std::size_t, double, const Cast<double>&, double*,
                          double*);

}  // namespace apscope::detail
