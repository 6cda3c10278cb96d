// quantize() over one piece of an array: which loop runs. Compiled once for fp32 (quantize_fp32.cpp)
// and once for fp64 (quantize_fp64.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "emulation/cast/quantize_addition.h"
#include "emulation/cast/quantize_job.h"

namespace apscope::detail {

// The rule itself.
template <RoundingMode M, class Real, bool Plain>
struct QuantizeByRule {
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count, const Cast<Real>* given) {
        const Cast<Real> cast = known<Plain>(*given);
        for (std::size_t i = 0; i < count; ++i) out[i] = round_to_format<M, Real>(in[i], cast, std::uint64_t{0});
    }
};

template <class Real>
void quantize_piece_loop(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin, std::size_t count) {
    if (is_stochastic(job.mode)) return stochastic_piece<Real>(job, in, out, begin, count);
    if (job.path == QuantizePath::addition) return simd::run<QuantizeByAddition<Real>>(in, out, count, &job.cast);
    dispatch(job.mode, [&]<RoundingMode M>() {
        if constexpr (!is_stochastic(M)) {
            if constexpr (std::is_same_v<Real, float>) {
                if (job.path == QuantizePath::split) {
                    return job.split.first_normal != 0 ? simd::run<QuantizeBySplit<M, true>>(in, out, count, &job.split)
                                                       : simd::run<QuantizeBySplit<M, false>>(in, out, count, &job.split);
                }
            }
            is_plain(job.cast) ? simd::run<QuantizeByRule<M, Real, true>>(in, out, count, &job.cast)
                               : simd::run<QuantizeByRule<M, Real, false>>(in, out, count, &job.cast);
        }
    });
}

}  // namespace apscope::detail
