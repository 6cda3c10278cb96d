// Chooses the loop for the stochastic rounding of one piece of an array. This file is compiled once
// for fp32 (stochastic_fp32.cpp) and once for fp64 (stochastic_fp64.cpp).
#pragma once

#include <algorithm>
#include <type_traits>

#include "emulation/cast/quantize_job.h"
#include "emulation/cast/stochastic_digits.h"
#include "emulation/cast/stochastic_kernels.h"

namespace apscope::detail {

// Rounds by the loops of the paths scaled and split, which draw random words in bulk
// (CastPlan::words_in_bulk).
template <RoundingMode M>
void draw_in_bulk(const QuantizeJob<float>& job, const float* in, float* out, std::size_t count,
                  std::uint64_t first) {
    const CastPlan<float>& plan = job.plan;
    const auto draw = [&]<bool Few>() {
        if (plan.path == CastPath::scaled) {
            plan.cast.negative_zero != 0
                ? simd::run<DrawScaled<M, Few, true>>(in, out, count, &plan.scaled, &job.stream,
                                                      first)
                : simd::run<DrawScaled<M, Few, false>>(in, out, count, &plan.scaled, &job.stream,
                                                       first);
        } else {
            plan.split.first_normal != 0
                ? simd::run<DrawBySplit<M, true, Few>>(in, out, count, &plan.split, &job.stream,
                                                       first)
                : simd::run<DrawBySplit<M, false, Few>>(in, out, count, &plan.split, &job.stream,
                                                        first);
        }
    };
    digits_serve(M, job.stream.random_bits, 16) ? draw.template operator()<true>()
                                                : draw.template operator()<false>();
}

template <RoundingMode M, class Real>
void draw_by_digits(const QuantizeJob<Real>& job, const Real* in, Real* out, std::size_t begin,
                    std::size_t count) {
    const auto draw = [&]<class Word>() {
        using Kernel = DrawByDigits<M, Real, Word>;
        const Cast<Real>* cast = &job.plan.cast;
        if (job.random.words)
            simd::run<Kernel>(in, out, count, cast, job.random.words->data() + begin);
        else simd::run<Kernel>(in, out, count, cast, &job.stream, job.random.first_element + begin);
    };
    if constexpr (std::is_same_v<Real, float>) {
        if (digits_serve(M, job.plan.cast.random_bits, 32))
            return draw.template operator()<std::uint32_t>();
    }
    draw.template operator()<std::uint64_t>();
}

template <class Real>
void stochastic_piece_loop(const QuantizeJob<Real>& job, const Real* in, Real* out,
                           std::size_t begin, std::size_t count) {
    const std::uint64_t first = job.random.first_element + begin;
    dispatch(job.plan.cast.rounding, [&]<RoundingMode M>() {
        if constexpr (M == RoundingMode::stochastic_exact) {
            for (std::size_t i = 0; i < count; ++i) {
                out[i] = round_to_format<M, Real>(in[i], job.plan.cast,
                                                  StreamWord{&job.stream, first + i});
            }
        } else if constexpr (is_stochastic(M)) {
            if constexpr (std::is_same_v<Real, float>) {
                const bool in_parts =
                    job.plan.path == CastPath::scaled || job.plan.path == CastPath::split;
                if (in_parts && job.plan.words_in_bulk && !job.random.words)
                    return draw_in_bulk<M>(job, in, out, count, first);
            }
            if (is_plain(job.plan.cast)) return draw_by_digits<M>(job, in, out, begin, count);
            if (job.random.words) {
                return simd::run<DrawByRule<M, Real>>(in, out, count, &job.plan.cast,
                                                      job.random.words->data() + begin,
                                                      64 - job.plan.cast.random_bits);
            }
            for_random_words(true, job.stream, first, count,
                             [&](std::size_t at, std::size_t n, const std::uint64_t* words) {
                                 simd::run<DrawByRule<M, Real>>(in + at, out + at, n,
                                                                &job.plan.cast, words, 0);
                             });
        }
    });
}

}  // namespace apscope::detail
