// Rounding on a GPU in the mode that a cast states, and its moments; and stochastic rounding of
// fp64 numbers by quanta (emulation/cast/quanta.h), in a fraction of the instructions.
#pragma once

#include <cstdint>

#include "core/philox.h"
#include "core/rounding.h"
#include "core/stochastic_moments.h"
#include "emulation/cast/quanta.h"

namespace apscope::detail {

// Marks a function that is not inlined, so that a kernel has one copy of it. Inlined at every call,
// the thirteen modes of the rounding rule would need a hundred kilobytes of code and minutes to
// compile.
#if defined(__CUDACC__)
#define APSCOPE_HD_CALL inline __host__ __device__ __noinline__
#else
#define APSCOPE_HD_CALL inline
#endif

// Rounds x in the cast's mode. `word` is the random integer, left-aligned; stochastic_exact ignores
// `word` and draws the words of `element` from the stream.
template <class Real>
APSCOPE_HD_CALL Real round_by_mode(Real x, const Cast<Real>& cast, std::uint64_t word,
                                   const RandomStream& stream, std::uint64_t element) {
    Real result{};
    dispatch(cast.rounding, [&]<RoundingMode M>() {
        if constexpr (M == RoundingMode::stochastic_exact) {
            result = round_to_format<M, Real>(x, cast, StreamWord{&stream, element});
        } else {
            result = round_to_format<M, Real>(x, cast, word);
        }
    });
    return result;
}

// Not inlined, as round_by_mode().
APSCOPE_HD_CALL RoundingMoments moments_by_rule(double v, const Cast<double>& cast) {
    return stochastic_moments(v, cast);
}

// A number's quanta; those of 0 in place of an infinity or a NaN.
struct SignedQuanta {
    std::uint64_t magnitude, sign;
    double size;
    Quanta q;

    APSCOPE_HD SignedQuanta(double x, const Cast<double>& cast)
        : magnitude(bits_cast<std::uint64_t>(x) & ~sign_bit<double>),
          sign(bits_cast<std::uint64_t>(x) & sign_bit<double>),
          size(is_finite() ? bits_cast<double>(magnitude) : 0.0), q(QuantaCast(cast)(size)) {}
    APSCOPE_HD bool is_finite() const { return magnitude < infinity_bits<double>; }
    APSCOPE_HD double with_sign(double value) const {
        return bits_cast<double>(bits_cast<std::uint64_t>(value) ^ sign);
    }

    // moments_by_rule(), if quanta_serve(cast).
    APSCOPE_HD RoundingMoments moments(const Cast<double>& cast) const {
        const RoundingMoments m =
            quanta_moments<true>(size, q, bits_cast<double>(cast.largest), cast.saturates);
        return {with_sign(m.bias), m.variance, m.defined && is_finite()};
    }
    // The number, rounded, if rounds_by_quanta(cast). `word` is the random integer R, left-aligned.
    // Its bits as the fraction of a number in [1, 2) are 1 + R / 2^N; the number rounds up if
    // R / 2^N + P(up) >= 1.
    APSCOPE_HD double rounded(const Cast<double>& cast, std::uint64_t word) const {
        const double drawn = bits_cast<double>(std::uint64_t{1023} << 52 | word >> 12),
                     k = drawn + q.up >= 2.0 ? q.k + 1.0 : q.k, result = k * q.quantum;
        if (is_finite() & (result <= bits_cast<double>(cast.largest))) return with_sign(result);
        const bool negative = sign != 0;
        const std::uint64_t overflow = negative ? cast.overflow_negative : cast.overflow_positive,
                            infinite = negative ? cast.infinite_negative : cast.infinite_positive;
        return bits_cast<double>(is_finite()                          ? overflow
                                 : magnitude == infinity_bits<double> ? infinite
                                                                      : nan_bits<double>);
    }
};
// True if SignedQuanta::rounded() rounds to the cast's format.
APSCOPE_HD bool rounds_by_quanta(const Cast<double>& cast) {
    return quanta_serve(cast) && is_plain(cast) && cast.is_signed &&
           cast.negative_zero == sign_bit<double> && (cast.exact_zero | cast.rounded_zero) == 0;
}

APSCOPE_HD RoundingMoments moments_by_mode(double v, const Cast<double>& cast) {
    return quanta_serve(cast) ? SignedQuanta(v, cast).moments(cast) : moments_by_rule(v, cast);
}

}  // namespace apscope::detail
