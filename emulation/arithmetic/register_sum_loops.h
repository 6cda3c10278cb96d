// The loops of sums in registers for one pair of steps, compiled once for fp32
// (register_sum_fp32.cpp) and once for fp64 (register_sum_fp64.cpp).
#pragma once

#include "emulation/arithmetic/lane_sum.h"

namespace apscope::detail {

// Sets the loops of the kernels; the step P rounds products, and the step S rounds sums.
template <class Real, Step P, Step S, bool Odd, std::size_t Lanes>
void set_loops(SumKernels<Real>& k) {
    using Count = std::size_t;
    using Given = const StepCast<Real>*;
    k.accumulate =
        simd::run<AccumulateTerms<Real, S, Odd, Lanes>, Real*, const Real*, Count, Count, Given>;
    k.add_neighbours =
        simd::run<AddNeighbours<Real, S, Odd, Lanes>, const Real*, Real*, Count, Given>;
    k.kahan = simd::run<AccumulateKahan<Real, S, Odd, Lanes>, Real*, Real*, const Real*, Count,
                        Count, Given>;
    k.multiply = simd::run<MultiplyTerms<Real, P>, const Real*, const Real*, Real*, Count, Given>;
    k.accumulate_products = simd::run<AccumulateProducts<Real, P, S, Odd, Lanes>, Real*,
                                      const Real*, const Real*, Count, Count, Given, Given>;
}

// Makes the kernels; set.template operator()<Lanes>(kernels) sets their loops.
template <class Real, class Set>
SumKernels<Real> make_sum_kernels(const StepCast<Real>& sum, const StepCast<Real>& product,
                                  std::size_t lanes, const Set& set) {
    SumKernels<Real> k;
    k.sum = sum;
    k.product = product;
    k.lanes = lanes;
    if (lanes == few_lanes) set.template operator()<few_lanes>(k);
    else set.template operator()<many_lanes>(k);
    return k;
}

}  // namespace apscope::detail
