// Sums of values of a format in fp32: an addition in hardware, then one cast. In these cases the
// two steps equal one rounding of the exact sum:
//
//      exact        fp32 can represent every sum of two values: they are multiples of the finest
//                   quantum, and the largest sum spans at most 24 bits of it. Any rounding.
//      innocuous    the terms are values of the accumulator's grid of precision p, 24 >= 2 p + 2,
//                   the cast is to nearest: an inexact fp32 sum lies next to a value of the grid,
//                   never at a midpoint (Figueroa, SIGNUM Newsletter 30(3), 1995)
//      fp32         the accumulator is fp32 itself
//
// Otherwise the sums of emulation/allreduce/reduce.h, rounded to odd in fp64, are used.
#pragma once

#include <optional>

#include "core/float_format.h"
#include "core/projection.h"
#include "emulation/allreduce/topology.h"
#include "emulation/arithmetic/rounding_steps.h"
#include "emulation/cast/scaled_format.h"

namespace apscope::detail {

struct Fp32Sums {
    bool in_hardware = false;  // the fp32 addition is the only rounding
    // The rounding after the addition, if it is to ties_to_even and can be computed in registers.
    std::optional<StepCast<float>> step;
    QuantizeJob<float> job{};  // the rounding after the addition, if `step` is empty
    std::uint32_t zero_sign = sign_bit<float>;  // the sign bit if the accumulator has a -0, else 0
    int random_bits = 0;                        // random bits of a stochastic rounding
    bool ends_wide = false;                     // the last sum is not rounded to the accumulator
    // For the moments of stochastic sums: the unscaled accumulator, and the scale 2^k.
    Cast<double> accumulator{};
    double scale = 1.0;
};

// Prepares sums of up to `workers` rows of values of the format `sent`, with partial sums rounded
// to `accumulate`; values and sums are stored times 2^-k. Returns nothing if none of the cases
// above applies, and for toward_negative, in which x - x is -0.
std::optional<Fp32Sums> fp32_sums(const FloatFormat& sent, const FloatFormat& accumulate,
                                  const Projection& projection, int k, int workers);

// Does the same for the additions of a topology (additions.h). Returns nothing if the wide
// additions of the topology are not fp32 additions.
std::optional<Fp32Sums> fp32_sums(const Topology& topology, const FloatFormat& sent,
                                  const FloatFormat& accumulate, const Projection& projection,
                                  int k, int workers);

}  // namespace apscope::detail
