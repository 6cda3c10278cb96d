// quantize() over one piece of an array: which loop runs. Compiled once for fp32 (quantize_fp32.cpp)
// and once for fp64 (quantize_fp64.cpp).
#pragma once

#include "emulation/quantize.h"
#include "emulation/quantize_kernels.h"
#include "emulation/simd.h"

namespace apscope {

template <class Real>
struct QuantizeJob {
    Cast<Real> cast;
    RoundingMode mode;
    QuantizePath path;
    RandomStream stream;
    RandomSource random;
};

// `in` and `out` point to elements begin .. begin + count - 1 of a whole array.
template <class Real>
void quantize_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin, std::size_t count);

template <class Real>
void quantize_piece_loop(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin, std::size_t count) {
    const std::uint64_t first = job.random.first_element + begin;
    if (job.path == QuantizePath::addition) {
        if constexpr (std::is_same_v<Real, float>) simd::run<QuantizeByAddition>(in, out, count, &job.cast);
        return;
    }
    dispatch(job.mode, [&]<RoundingMode M>() {
        if constexpr (M == RoundingMode::stochastic_exact) {
            for (std::size_t i = 0; i < count; ++i) {
                out[i] = round_to_format<M, Real>(in[i], job.cast, StreamWord{&job.stream, first + i});
            }
        } else if constexpr (is_stochastic(M)) {
            if (job.random.words) {
                simd::run<QuantizeGivenWords<M, Real>>(in, out, count, &job.cast, job.random.words->data() + begin);
            } else {
                is_plain(job.cast) ? simd::run<QuantizeStochastic<M, Real, true>>(in, out, count, &job.cast, &job.stream, first)
                                   : simd::run<QuantizeStochastic<M, Real, false>>(in, out, count, &job.cast, &job.stream, first);
            }
        } else {
            is_plain(job.cast) ? simd::run<QuantizeByRule<M, Real, true>>(in, out, count, &job.cast)
                               : simd::run<QuantizeByRule<M, Real, false>>(in, out, count, &job.cast);
        }
    });
}

}  // namespace apscope
