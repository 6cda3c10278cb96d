// A cast to nearest and the statistics of its errors in the same registers, for blocks whose numbers all lie
// within the format, compiled per instruction set. Bit for bit what casting first and ErrorStatistics after
// it give:
//
//      c = 1.5 2^(max(exponent(x), emin) + 23 - m)
//      y = (x + c) - c          ties to even; without its sign where it is zero
//      e = y - x                exact in fp32: a multiple of x's last place, and not above |x|
//      y = x + e                in fp64, where the products x x, x y, y y, e e are exact too
//
// An exact product may be multiplied and added in one instruction: the addition's rounding is the only one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "analysis/statistics/pair_kernels.h"
#include "core/fixed_shape_sum.h"
#include "emulation/machine/simd.h"
#include "emulation/machine/streaming.h"

namespace apscope::detail {

// A format as the loop needs it; bits of fp32.
struct NearestCast {
    std::uint32_t least = 0;      // 2^emin
    std::uint32_t lift = 0;       // from a binade to its c
    std::uint32_t inverse = 0;    // less c: one over the quantum
    std::uint32_t zero_sign = 0;  // the sign bit, if the format has a -0
    std::uint32_t largest = 0;
};

// What becomes of y.
enum class Casted { unused, stored, streamed };

struct NearestFound {
    double sums[7];  // the first of ErrorStatistics::Sum
    std::uint32_t zero, lost, below;  // x = 0, y = 0, |x| < 2^emin
    std::uint32_t most, ulps;         // the largest |x|, and |e| in quanta: bits of fp32
};

template <bool Fused, Casted How>
struct CastAndCompare {
    static constexpr std::size_t ahead = 512;  // elements from a load to what memory should send meanwhile
    static constexpr std::size_t piece = How == Casted::streamed ? 1024 : sum_block;

    static APSCOPE_INLINE void run(const float* __restrict in, float* __restrict out, std::size_t count, const NearestCast* given,
                                   NearestFound* found) {
        using S = ErrorStatistics;
        // Locals, which stay in registers.
        double error[sum_lanes] = {}, squared_error[sum_lanes] = {}, squared_reference[sum_lanes] = {}, absolute_reference[sum_lanes] = {},
               signed_error[sum_lanes] = {}, product[sum_lanes] = {}, squared_result[sum_lanes] = {};
        std::uint32_t zero[sum_lanes] = {}, lost[sum_lanes] = {}, below[sum_lanes] = {}, most[sum_lanes] = {}, ulps[sum_lanes] = {};
        const NearestCast cast = *given;
        const auto add = [&](const float* from, float* to, std::size_t lane) __attribute__((always_inline)) {
            const float x = from[lane];
            const std::uint32_t bits = bits_cast<std::uint32_t>(x), magnitude = bits & 0x7FFFFFFF, binade = bits & 0x7F800000;
            const std::uint32_t c_bits = (binade > cast.least ? binade : cast.least) + cast.lift;
            const float c = bits_cast<float>(c_bits), rounded = (x + c) - c, narrow_error = rounded - x;
            if constexpr (How != Casted::unused) to[lane] = bits_cast<float>(bits_cast<std::uint32_t>(rounded) | (bits & cast.zero_sign));
            const float quanta = narrow_error * bits_cast<float>(cast.inverse - c_bits);
            const std::uint32_t in_quanta = bits_cast<std::uint32_t>(quanta) & 0x7FFFFFFF;
            ulps[lane] = in_quanta > ulps[lane] ? in_quanta : ulps[lane];
            most[lane] = magnitude > most[lane] ? magnitude : most[lane];
            zero[lane] = x == 0.0f ? zero[lane] + 1 : zero[lane];
            lost[lane] = rounded == 0.0f ? lost[lane] + 1 : lost[lane];
            below[lane] = binade < cast.least ? below[lane] + 1 : below[lane];
            const double a = x, e = narrow_error, b = a + e;
            const std::uint64_t wide = bits_cast<std::uint64_t>(a), sign = wide & sign_bit<double>;
            error[lane] += e;
            squared_error[lane] = add_exact_product<Fused>(e, e, squared_error[lane]);
            squared_reference[lane] = add_exact_product<Fused>(a, a, squared_reference[lane]);
            absolute_reference[lane] += bits_cast<double>(wide ^ sign);
            // sign(0) = 0: where x is zero so is e, and no lane is -0.
            signed_error[lane] += bits_cast<double>(bits_cast<std::uint64_t>(e) ^ sign);
            product[lane] = add_exact_product<Fused>(a, b, product[lane]);
            squared_result[lane] = add_exact_product<Fused>(b, b, squared_result[lane]);
        };
        const auto sixteen = [&](const float* from, float* to) __attribute__((always_inline)) {
            __builtin_prefetch(from + ahead);
#pragma GCC ivdep  // arrays of their own
            for (std::size_t lane = 0; lane < sum_lanes; ++lane) add(from, to, lane);
        };
        std::size_t i = 0;
        if constexpr (How == Casted::streamed) {
            alignas(64) float held[piece];
            for (; i + piece <= count; i += piece) {
                for (std::size_t j = 0; j < piece; j += sum_lanes) sixteen(in + i + j, held + j);
                copy_streaming(held, out + i, sizeof held);
            }
        }
        for (; i + sum_lanes <= count; i += sum_lanes) sixteen(in + i, How == Casted::unused ? nullptr : out + i);
        for (std::size_t lane = 0; i + lane < count; ++lane) add(in + i, How == Casted::unused ? nullptr : out + i, lane);

        NearestFound f{};
        const auto join = [&](S::Sum sum, double* lanes) { f.sums[sum] = join_lanes(lanes); };
        join(S::error, error);
        join(S::squared_error, squared_error);
        join(S::squared_reference, squared_reference);
        join(S::absolute_reference, absolute_reference);
        join(S::signed_error, signed_error);
        join(S::product, product);
        join(S::squared_result, squared_result);
        for (std::size_t lane = 0; lane < sum_lanes; ++lane) {
            f.zero += zero[lane];
            f.lost += lost[lane];
            f.below += below[lane];
            f.most = most[lane] > f.most ? most[lane] : f.most;
            f.ulps = ulps[lane] > f.ulps ? ulps[lane] : f.ulps;
        }
        *found = f;
    }
};

}  // namespace apscope::detail
