// Deterministic rounding by one hardware addition and one subtraction (core/grid.h), as vector code
// and on a GPU. Overflow, infinities and NaN are handled in a second pass over the few buffers that
// have such numbers.
#pragma once

#include <cstddef>

#include "core/grid.h"
#include "emulation/cast/quantize_buffers.h"

namespace apscope::detail {

template <class Real>
struct AdditionCast {
    Cast<Real> cast;
    GridConstants<Real> grid;
    // The largest exponent field for which c is finite. It replaces larger fields, whose numbers
    // overflow with this c too.
    BitsOf<Real> top = 0;
};

template <class Real>
APSCOPE_INLINE AdditionCast<Real> make_addition_cast(const Cast<Real>& cast) {
    using Bits = BitsOf<Real>;
    const GridConstants<Real> grid = make_grid<Real>(cast.emin, cast.mantissa_bits);
    return {cast, grid,
            infinity_bits<Real> - (Bits{1} << Layout<Real>::fraction_bits) -
                (grid.lift - grid_half<Real>)};
}

// The bits of the rounded x. Limited means that overflows, infinities and NaNs are handled; without
// Limited, the result is valid only if |x| is at most the largest value.
template <RoundingMode M, bool Limited, class Real>
APSCOPE_HD BitsOf<Real> rounded_by_addition(Real x, const AdditionCast<Real>& a) {
    using Bits = BitsOf<Real>;
    const Bits bits = bits_cast<Bits>(x);
    Bits field = bits & infinity_bits<Real>;
    if constexpr (Limited) field = field < a.top ? field : a.top;
    const Real c = bits_cast<Real>(grid_c(field, a.grid));
    const Bits rounded = with_zero_sign<M>(round_to_grid<M>(x, c), bits, a.cast.negative_zero);
    if constexpr (Limited) return limited(rounded, bits, a.cast);
    return rounded;
}

template <RoundingMode M, class Real>
struct QuantizeByAddition {
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count,
                                   const AdditionCast<Real>* given) {
        const AdditionCast<Real> a = *given;
        round_buffers(in, out, count, a.cast.largest,
                      [&]<bool Limited>(Real x) __attribute__((always_inline)) {
                          return bits_cast<Real>(rounded_by_addition<M, Limited>(x, a));
                      });
    }
};

}  // namespace apscope::detail
