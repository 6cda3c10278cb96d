// The loops of sums that stay in registers: `Lanes` sums at a time, each of which adds its terms
// one after another. A step (emulation/arithmetic/rounding_steps.h) rounds every product and every
// sum.
#pragma once

#include <cstddef>

#include "emulation/arithmetic/kahan.h"
#include "emulation/arithmetic/rounding_steps.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// The possible numbers of sums side by side: several vectors, whose chains of operations overlap,
// or one vector if there are only a few sums.
inline constexpr std::size_t many_lanes = 64, few_lanes = 8;

// Sets sum[j] = round(sum[j] + terms[k][j]) for every k; rows of terms are `stride` apart.
template <class Real, Step S, bool Odd, std::size_t Lanes>
struct AccumulateTerms {
    static APSCOPE_INLINE void run(Real* sum, const Real* terms, std::size_t stride,
                                   std::size_t count, const StepCast<Real>* given) {
        const StepCast<Real> step = *given;
        Real s[Lanes];
        for (std::size_t j = 0; j < Lanes; ++j) s[j] = sum[j];
        for (std::size_t k = 0; k < count; ++k) {
            const Real* t = terms + k * stride;
            for (std::size_t j = 0; j < Lanes; ++j)
                s[j] = round_step<S>(add_for_step<Odd, S>(s[j], t[j], step), step);
        }
        for (std::size_t j = 0; j < Lanes; ++j) sum[j] = s[j];
    }
};

// Sets sum[j] = round(sum[j] + round(a[k] * b[k][j])) for every k.
template <class Real, Step P, Step S, bool Odd, std::size_t Lanes>
struct AccumulateProducts {
    static APSCOPE_INLINE void run(Real* sum, const Real* a, const Real* b, std::size_t stride,
                                   std::size_t count, const StepCast<Real>* given_product,
                                   const StepCast<Real>* given) {
        const StepCast<Real> product = *given_product, step = *given;
        Real s[Lanes];
        for (std::size_t j = 0; j < Lanes; ++j) s[j] = sum[j];
        for (std::size_t k = 0; k < count; ++k) {
            const Real* row = b + k * stride;
            const Real factor = a[k];
            for (std::size_t j = 0; j < Lanes; ++j) {
                s[j] = round_step<S>(
                    add_for_step<Odd, S>(s[j], round_step<P>(factor * row[j], product), step),
                    step);
            }
        }
        for (std::size_t j = 0; j < Lanes; ++j) sum[j] = s[j];
    }
};

// Adds `count` rows of terms to Kahan's sums; `lost` has the errors e of the sums (kahan.h).
template <class Real, Step S, bool Odd, std::size_t Lanes>
struct AccumulateKahan {
    static APSCOPE_INLINE void run(Real* sum, Real* lost, const Real* terms, std::size_t stride,
                                   std::size_t count, const StepCast<Real>* given) {
        const StepCast<Real> step = *given;
        Real s[Lanes], e[Lanes];
        for (std::size_t j = 0; j < Lanes; ++j) s[j] = sum[j];
        for (std::size_t j = 0; j < Lanes; ++j) e[j] = lost[j];
        for (std::size_t k = 0; k < count; ++k) {
            const Real* t = terms + k * stride;
            for (std::size_t j = 0; j < Lanes; ++j) {
                Real y, next;
                kahan_add(
                    t[j], s[j], e[j], y, next,
                    [&](Real& out, Real a, int sign, Real b, int) __attribute__((always_inline)) {
                        out = round_step<S>(add_for_step<Odd, S>(a, sign < 0 ? -b : b, step), step);
                    });
                s[j] = next;
            }
        }
        for (std::size_t j = 0; j < Lanes; ++j) sum[j] = s[j];
        for (std::size_t j = 0; j < Lanes; ++j) lost[j] = e[j];
    }
};

// Sets out[i][j] = round(terms[2 i][j] + terms[2 i + 1][j]); `out` may be `terms`.
template <class Real, Step S, bool Odd, std::size_t Lanes>
struct AddNeighbours {
    static APSCOPE_INLINE void run(const Real* terms, Real* out, std::size_t pairs,
                                   const StepCast<Real>* given) {
        const StepCast<Real> step = *given;
        for (std::size_t i = 0; i < pairs; ++i) {
            Real sums[Lanes];
            const Real* t = terms + 2 * i * Lanes;
            for (std::size_t j = 0; j < Lanes; ++j)
                sums[j] = round_step<S>(add_for_step<Odd, S>(t[j], t[Lanes + j], step), step);
            for (std::size_t j = 0; j < Lanes; ++j) out[i * Lanes + j] = sums[j];
        }
    }
};

// Sets out[j] = round(a[j] * b[j]).
template <class Real, Step P>
struct MultiplyTerms {
    static APSCOPE_INLINE void run(const Real* a, const Real* b, Real* out, std::size_t count,
                                   const StepCast<Real>* given) {
        const StepCast<Real> product = *given;
#pragma GCC ivdep
        for (std::size_t j = 0; j < count; ++j) out[j] = round_step<P>(a[j] * b[j], product);
    }
};

}  // namespace apscope::detail
