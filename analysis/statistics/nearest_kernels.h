// A cast to nearest and the statistics of its errors in the same registers, for blocks whose
// numbers are all within the format, compiled per instruction set. The bits are those of a cast
// followed by ErrorStatistics:
//
//      y = (x + c) - c          ties to even (core/grid.h); without its sign where it is zero
//      e = y - x                exact in fp32: a multiple of x's last place, and not above |x|
//      y = x + e                in fp64, where the products x^2, x y, y^2, e^2 are exact too
//
// An exact product may be multiplied and added in one instruction: the addition's rounding is the
// only one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "analysis/statistics/pair_kernels.h"
#include "core/fixed_shape_sum.h"
#include "core/grid.h"
#include "emulation/machine/simd.h"
#include "emulation/machine/streaming.h"

namespace apscope::detail {

// The format's constants in the loop; all fields are bits of fp32 numbers.
struct NearestCast {
    GridConstants<float> grid;
    std::uint32_t zero_sign = 0;  // the sign bit, if the format has a -0
    std::uint32_t largest = 0;
};

// How the loop stores the results: not at all, in `out`, or in `out` with streaming stores.
enum class StoreMode { unused, stored, streamed };

struct NearestFound {
    double sums[error_sums];
    std::uint32_t zero, lost, below;  // numbers of pairs with x = 0, with y = 0, with |x| < 2^emin
    // Bits of fp32 numbers: the largest |x|, and the largest |e| in quanta.
    std::uint32_t max, ulps;
};

template <bool Fused, StoreMode Store>
struct CastAndCompare {
    // The distance, in elements, from a load to the element that is prefetched.
    static constexpr std::size_t ahead = 512;
    static constexpr std::size_t piece = Store == StoreMode::streamed ? 1024 : sum_block;

    static APSCOPE_INLINE void run(const float* __restrict in, float* __restrict out,
                                   std::size_t count, const NearestCast* given,
                                   NearestFound* found) {
        // Local variables, which stay in registers.
        LaneSums<error_sums> sums;
        std::uint32_t zero[sum_lanes] = {}, lost[sum_lanes] = {}, below[sum_lanes] = {},
                      max[sum_lanes] = {}, ulps[sum_lanes] = {};
        const NearestCast cast = *given;
        const auto add = [&](const float* from, float* to,
                             std::size_t lane) __attribute__((always_inline)) {
            const float x = from[lane];
            const std::uint32_t bits = bits_cast<std::uint32_t>(x), magnitude = bits & 0x7FFFFFFF,
                                binade = bits & 0x7F800000;
            const std::uint32_t c_bits = grid_c(binade, cast.grid);
            const float rounded = to_grid(x, bits_cast<float>(c_bits)).even,
                        narrow_error = rounded - x;
            if constexpr (Store != StoreMode::unused)
                to[lane] =
                    bits_cast<float>(bits_cast<std::uint32_t>(rounded) | (bits & cast.zero_sign));
            const float quanta = narrow_error * bits_cast<float>(c_times_inverse<float> - c_bits);
            const std::uint32_t in_quanta = bits_cast<std::uint32_t>(quanta) & 0x7FFFFFFF;
            ulps[lane] = in_quanta > ulps[lane] ? in_quanta : ulps[lane];
            max[lane] = magnitude > max[lane] ? magnitude : max[lane];
            zero[lane] = x == 0.0f ? zero[lane] + 1 : zero[lane];
            lost[lane] = rounded == 0.0f ? lost[lane] + 1 : lost[lane];
            below[lane] = binade < cast.grid.least ? below[lane] + 1 : below[lane];
            const double a = x, e = narrow_error, b = a + e;
            update_sums<PairTraits{Fused, Fused, false}>(
                a, b, e, false, [&](int k) __attribute__((always_inline)) -> double& {
                    return sums.lane[k][lane];
                });
        };
        const auto sixteen = [&](const float* from, float* to) __attribute__((always_inline)) {
            __builtin_prefetch(from + ahead);
#pragma GCC ivdep  // the arrays do not overlap
            for (std::size_t lane = 0; lane < sum_lanes; ++lane) add(from, to, lane);
        };
        std::size_t i = 0;
        if constexpr (Store == StoreMode::streamed) {
            alignas(64) float held[piece];
            for (; i + piece <= count; i += piece) {
                for (std::size_t j = 0; j < piece; j += sum_lanes) sixteen(in + i + j, held + j);
                copy_streaming(held, out + i, sizeof held);
            }
        }
        for (; i + sum_lanes <= count; i += sum_lanes)
            sixteen(in + i, Store == StoreMode::unused ? nullptr : out + i);
        for (std::size_t lane = 0; i + lane < count; ++lane)
            add(in + i, Store == StoreMode::unused ? nullptr : out + i, lane);

        NearestFound f{};
        for (int k = 0; k < error_sums; ++k) f.sums[k] = sums.join(static_cast<std::size_t>(k));
        for (std::size_t lane = 0; lane < sum_lanes; ++lane) {
            f.zero += zero[lane];
            f.lost += lost[lane];
            f.below += below[lane];
            f.max = max[lane] > f.max ? max[lane] : f.max;
            f.ulps = ulps[lane] > f.ulps ? ulps[lane] : f.ulps;
        }
        *found = f;
    }
};

}  // namespace apscope::detail
