// quantize() over one piece of an array: which loop runs. Compiled once for fp32 (quantize_fp32.cpp)
// and once for fp64 (quantize_fp64.cpp).
#pragma once

#include <algorithm>

#include "emulation/quantize.h"
#include "emulation/quantize_kernels.h"
#include "emulation/quantize_split.h"
#include "emulation/simd.h"

namespace apscope {

template <class Real>
struct QuantizeJob {
    Cast<Real> cast;
    RoundingMode mode;
    QuantizePath path;
    RandomStream stream;
    RandomSource random;
    SplitCast split;  // fp32 and QuantizePath::split only
};

// `in` and `out` point to elements begin .. begin + count - 1 of a whole array.
template <class Real>
void quantize_piece(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin, std::size_t count);

template <RoundingMode M, class Real>
bool serves_narrow_draws(const QuantizeJob<Real>& job) {
    return std::is_same_v<Real, float> && is_narrow_draw<M, Word32> && job.stream.random_bits <= 32 && is_plain(job.cast);
}

template <class Real>
void quantize_piece_loop(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin, std::size_t count) {
    const std::uint64_t first = job.random.first_element + begin;
    if (job.path == QuantizePath::addition) {
        simd::run<QuantizeByAddition<Real>>(in, out, count, &job.cast);
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
            } else if (serves_narrow_draws<M, Real>(job)) {
                if constexpr (std::is_same_v<Real, float> && is_narrow_draw<M, Word32>) {
                    // Up to the first whole block one by one.
                    const auto slots = static_cast<std::uint64_t>(RandomStream::slots(job.stream.random_bits));
                    const std::size_t head = std::min<std::size_t>(count, static_cast<std::size_t>((slots - first % slots) % slots));
                    if (head > 0) simd::run<QuantizeStochastic<M, float, true>>(in, out, head, &job.cast, &job.stream, first);
                    const float* rest = in + head;
                    float* rounded = out + head;
                    const std::size_t left = count - head;
                    const std::uint64_t next = first + head;
                    if (job.path != QuantizePath::split) simd::run<QuantizeNarrowDraws<M>>(rest, rounded, left, &job.cast, &job.stream, next);
                    else if (job.split.first_normal == 0) simd::run<DrawBySplit<M, false, false>>(rest, rounded, left, &job.split, &job.stream, next);
                    else if (slots == 8) simd::run<DrawBySplit<M, true, true>>(rest, rounded, left, &job.split, &job.stream, next);
                    else simd::run<DrawBySplit<M, true, false>>(rest, rounded, left, &job.split, &job.stream, next);
                }
            } else {
                is_plain(job.cast) ? simd::run<QuantizeStochastic<M, Real, true>>(in, out, count, &job.cast, &job.stream, first)
                                   : simd::run<QuantizeStochastic<M, Real, false>>(in, out, count, &job.cast, &job.stream, first);
            }
        } else if (job.path == QuantizePath::split) {
            if constexpr (std::is_same_v<Real, float>) {
                job.split.first_normal != 0 ? simd::run<QuantizeBySplit<M, true>>(in, out, count, &job.split)
                                            : simd::run<QuantizeBySplit<M, false>>(in, out, count, &job.split);
            }
        } else {
            is_plain(job.cast) ? simd::run<QuantizeByRule<M, Real, true>>(in, out, count, &job.cast)
                               : simd::run<QuantizeByRule<M, Real, false>>(in, out, count, &job.cast);
        }
    });
}

}  // namespace apscope
