// Chooses the loop of block_kernels.h that rounds a run of elements. Compiled once for fp32
// (blocks_fp32.cpp) and once for fp64 (blocks_fp64.cpp).
#pragma once

#include <type_traits>

#include "core/rounding.h"
#include "emulation/blocks/block_job.h"

namespace apscope::detail {

template <bool Encodes, class Real, class Out>
void run_block_loop(const BlockJob<Real>& job, const Real* in, Out* out, std::size_t count,
                    std::size_t steps, const BlockScales<Real>& scales,
                    const std::uint32_t* drawn) {
    const BlockCast<Real>* cast = &job.cast;
    dispatch(job.encoder.projection.rounding, [&]<RoundingMode M>() {
        const auto run = [&]<bool Few, bool Ratio>() {
            steps > 0 ? simd::run<RoundBlocksInSteps<M, Few, Ratio, Encodes, Real>>(
                            in, out, count / (steps * block_step), steps, cast, &scales, drawn)
                      : simd::run<RoundBlockElements<M, Few, Ratio, Encodes, Real>>(
                            in, out, count, cast, &scales, drawn);
        };
        const auto by_rule = [&]<bool Few>() {
            if constexpr (std::is_same_v<Real, float>) {
                if (job.ratio) return run.template operator()<Few, true>();
            }
            run.template operator()<Few, false>();
        };
        if constexpr (M == RoundingMode::stochastic && std::is_same_v<Real, float>) {
            job.few ? by_rule.template operator()<true>() : by_rule.template operator()<false>();
        } else if constexpr (!is_stochastic(M) ||
                             (M == RoundingMode::stochastic_equal && std::is_same_v<Real, float>)) {
            by_rule.template operator()<true>();
        }
    });
}

template <class Real>
void round_block_elements(const BlockJob<Real>& job, const Real* in, Real* out, std::size_t count,
                          std::size_t steps, const BlockScales<Real>& scales,
                          const std::uint32_t* drawn) {
    run_block_loop<false>(job, in, out, count, steps, scales, drawn);
}
template <class Real>
void encode_block_elements(const BlockJob<Real>& job, const Real* in, std::uint8_t* out,
                           std::size_t count, std::size_t steps, const BlockScales<Real>& scales,
                           const std::uint32_t* drawn) {
    run_block_loop<true>(job, in, out, count, steps, scales, drawn);
}

}  // namespace apscope::detail
