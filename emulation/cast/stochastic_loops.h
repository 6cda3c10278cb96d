// Stochastic rounding over one piece of an array: which loop runs. Compiled once for fp32 (stochastic_fp32.cpp)
// and once for fp64 (stochastic_fp64.cpp).
#pragma once

#include <algorithm>
#include <type_traits>

#include "emulation/cast/quantize_job.h"
#include "emulation/cast/stochastic_kernels.h"

namespace apscope::detail {

// fp32 numbers and at most 32 random bits, of a mode that has room for them in 32 bits.
template <RoundingMode M>
void narrow_piece(const QuantizeJob<float>& job, const float* in, float* out, std::size_t count, std::uint64_t first) {
    // Up to the first whole block one by one.
    const auto slots = static_cast<std::uint64_t>(RandomStream::slots(job.stream.random_bits));
    const std::size_t head = std::min<std::size_t>(count, static_cast<std::size_t>((slots - first % slots) % slots));
    if (head > 0) simd::run<DrawByRule<M, float, true>>(in, out, head, &job.cast, &job.stream, first);
    in += head;
    out += head;
    count -= head;
    first += head;
    if (job.path != QuantizePath::split) return simd::run<DrawNarrowByRule<M>>(in, out, count, &job.cast, &job.stream, first);
    if (scaled_serves(job.split, M)) {
        const ScaledCast scaled = make_scaled_cast(job.split);
        return slots == 8 ? simd::run<DrawScaled<true>>(in, out, count, &scaled, &job.stream, first)
                          : simd::run<DrawScaled<false>>(in, out, count, &scaled, &job.stream, first);
    }
    if (job.split.first_normal == 0) simd::run<DrawBySplit<M, false, false>>(in, out, count, &job.split, &job.stream, first);
    else if (slots == 8) simd::run<DrawBySplit<M, true, true>>(in, out, count, &job.split, &job.stream, first);
    else simd::run<DrawBySplit<M, true, false>>(in, out, count, &job.split, &job.stream, first);
}

template <class Real>
void stochastic_piece_loop(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin, std::size_t count) {
    const std::uint64_t first = job.random.first_element + begin;
    dispatch(job.mode, [&]<RoundingMode M>() {
        if constexpr (M == RoundingMode::stochastic_exact) {
            for (std::size_t i = 0; i < count; ++i) {
                out[i] = round_to_format<M, Real>(in[i], job.cast, StreamWord{&job.stream, first + i});
            }
        } else if constexpr (is_stochastic(M)) {
            if (job.random.words) return simd::run<DrawGivenWords<M, Real>>(in, out, count, &job.cast, job.random.words->data() + begin);
            if constexpr (std::is_same_v<Real, float> && is_narrow_draw<M, Word32>) {
                if (job.stream.random_bits <= 32 && is_plain(job.cast)) return narrow_piece<M>(job, in, out, count, first);
            }
            is_plain(job.cast) ? simd::run<DrawByRule<M, Real, true>>(in, out, count, &job.cast, &job.stream, first)
                               : simd::run<DrawByRule<M, Real, false>>(in, out, count, &job.cast, &job.stream, first);
        }
    });
}

}  // namespace apscope::detail
