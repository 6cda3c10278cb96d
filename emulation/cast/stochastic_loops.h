// Stochastic rounding over one piece of an array: which loop runs. Compiled once for fp32 (stochastic_fp32.cpp)
// and once for fp64 (stochastic_fp64.cpp).
#pragma once

#include <algorithm>
#include <type_traits>

#include "emulation/cast/quantize_job.h"
#include "emulation/cast/stochastic_kernels.h"

namespace apscope::detail {

// Words in bulk (CastPlan::words_in_bulk).
template <RoundingMode M>
void draw_in_bulk(const QuantizeJob<float>& job, const float* in, float* out, std::size_t count, std::uint64_t first) {
    // Up to the first whole block one by one.
    const auto slots = static_cast<std::uint64_t>(RandomStream::slots(job.stream.random_bits));
    const std::size_t head = std::min<std::size_t>(count, static_cast<std::size_t>((slots - first % slots) % slots));
    if (head > 0) simd::run<DrawByRule<M, float, true>>(in, out, head, &job.plan.cast, &job.stream, first);
    in += head;
    out += head;
    count -= head;
    first += head;
    const CastPlan<float>& plan = job.plan;
    if (plan.path == CastPath::scaled) {
        return slots == 8 ? simd::run<DrawScaled<true>>(in, out, count, &plan.scaled, &job.stream, first)
                          : simd::run<DrawScaled<false>>(in, out, count, &plan.scaled, &job.stream, first);
    }
    if (plan.path != CastPath::split) return simd::run<DrawNarrowByRule<M>>(in, out, count, &plan.cast, &job.stream, first);
    if (plan.split.first_normal == 0) simd::run<DrawBySplit<M, false, false>>(in, out, count, &plan.split, &job.stream, first);
    else if (slots == 8) simd::run<DrawBySplit<M, true, true>>(in, out, count, &plan.split, &job.stream, first);
    else simd::run<DrawBySplit<M, true, false>>(in, out, count, &plan.split, &job.stream, first);
}

template <class Real>
void stochastic_piece_loop(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin, std::size_t count) {
    const std::uint64_t first = job.random.first_element + begin;
    dispatch(job.plan.cast.rounding, [&]<RoundingMode M>() {
        if constexpr (M == RoundingMode::stochastic_exact) {
            for (std::size_t i = 0; i < count; ++i) {
                out[i] = round_to_format<M, Real>(in[i], job.plan.cast, StreamWord{&job.stream, first + i});
            }
        } else if constexpr (is_stochastic(M)) {
            if (job.random.words) return simd::run<DrawGivenWords<M, Real>>(in, out, count, &job.plan.cast, job.random.words->data() + begin);
            if constexpr (std::is_same_v<Real, float> && is_narrow_draw<M, Word32>) {
                if (job.plan.words_in_bulk) return draw_in_bulk<M>(job, in, out, count, first);
            }
            is_plain(job.plan.cast) ? simd::run<DrawByRule<M, Real, true>>(in, out, count, &job.plan.cast, &job.stream, first)
                               : simd::run<DrawByRule<M, Real, false>>(in, out, count, &job.plan.cast, &job.stream, first);
        }
    });
}

}  // namespace apscope::detail
