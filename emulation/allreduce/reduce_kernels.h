// The loops of encode and reduce over fp64 rows, one struct each with a static run(), compiled per
// instruction set by simd::run().
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/exact_sum.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// out = round(scale * in); the product of two fp32-born numbers is exact in fp64. `words`: if the mode draws.
template <RoundingMode M, bool Plain>
struct EncodeRow {
    static APSCOPE_INLINE void run(const float* in, double* out, std::size_t count, double scale, const Cast<double>* given,
                                   const std::uint64_t* words) {
        const Cast<double> cast = assume_plain<Plain>(*given);
        for (std::size_t i = 0; i < count; ++i) out[i] = round_to_format<M, double>(in[i] * scale, cast, is_stochastic(M) ? words[i] : 0);
    }
};

// target = round(target + sign * source).
template <RoundingMode M, bool Plain>
struct AddRow {
    static APSCOPE_INLINE void run(double* target, const double* source, double sign, std::size_t count, const Cast<double>* given,
                                   const std::uint64_t* words) {
        const Cast<double> cast = assume_plain<Plain>(*given);
        for (std::size_t i = 0; i < count; ++i) {
            target[i] = add_rounded<M>(target[i], sign * source[i], cast, is_stochastic(M) ? words[i] : 0);
        }
    }
};

}  // namespace apscope::detail
