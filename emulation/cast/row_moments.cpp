#include "emulation/cast/row_moments.h"

#include <algorithm>
#include <limits>

#include "core/stochastic_moments.h"
#include "emulation/cast/quanta.h"
#include "emulation/cast/quantize_buffers.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

// Computes stochastic_moments() by quanta (quanta.h), with the same bits. A magnitude of at most
// `inside`, times `scale`, is at most the largest number, so its rounding cannot overflow.
template <class Real>
struct AddMoments {
    static APSCOPE_INLINE void run(const Real* row, std::size_t count, double scale,
                                   const Cast<double>* cast, BitsOf<Real> inside, double* bias,
                                   double* variance, bool* defined) {
        const QuantaCast by_quanta(*cast);
        const double largest = bits_cast<double>(cast->largest);
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
                    const RoundingMoments m =
                        quanta_moments<Limited>(size, by_quanta(size), largest, saturates);
                    bias[i] += bits_cast<double>(bits_cast<std::uint64_t>(m.bias) ^ sign);
                    variance[i] += m.variance;
                    undefined |= static_cast<std::uint64_t>(!(finite & m.defined));
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
    if (quanta_serve(cast)) {
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
