// Rounds one piece of an array by the loop of its path. This file is compiled once for fp32
// (quantize_fp32.cpp) and once for fp64 (quantize_fp64.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "emulation/cast/quantize_addition.h"
#include "emulation/cast/quantize_job.h"
#include "emulation/cast/row_rule.h"

namespace apscope::detail {

// Applies the rounding rule to every fp32 number; row_rule.h applies it to fp64 numbers.
template <RoundingMode M, bool Plain>
struct QuantizeByRule {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count,
                                   const Cast<float>* given) {
        const Cast<float> cast = assume_plain<Plain>(*given);
        for (std::size_t i = 0; i < count; ++i)
            out[i] = round_to_format<M, float>(in[i], cast, std::uint64_t{0});
    }
};

template <class Real>
void quantize_piece_loop(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin,
                         std::size_t count) {
    const CastPlan<Real>& plan = job.plan;
    if (is_stochastic(plan.cast.rounding))
        return stochastic_piece<Real>(job, in, out, begin, count);
    dispatch(plan.cast.rounding, [&]<RoundingMode M>() {
        if constexpr (!is_stochastic(M)) {
            if (plan.path == CastPath::addition)
                return simd::run<QuantizeByAddition<M, Real>>(in, out, count, &plan.addition);
            if constexpr (std::is_same_v<Real, float>) {
                const auto split = [&]<bool SignedZero>() {
                    plan.split.first_normal != 0
                        ? simd::run<QuantizeBySplit<M, true, SignedZero>>(in, out, count,
                                                                          &plan.split)
                        : simd::run<QuantizeBySplit<M, false, SignedZero>>(in, out, count,
                                                                           &plan.split);
                };
                if (plan.path == CastPath::split) {
                    return plan.cast.negative_zero != 0 ? split.template operator()<true>()
                                                        : split.template operator()<false>();
                }
            }
            if constexpr (std::is_same_v<Real, double>)
                return round_by_rule(in, out, count, plan.cast);
            else
                is_plain(plan.cast)
                    ? simd::run<QuantizeByRule<M, true>>(in, out, count, &plan.cast)
                    : simd::run<QuantizeByRule<M, false>>(in, out, count, &plan.cast);
        }
    });
}

}  // namespace apscope::detail
