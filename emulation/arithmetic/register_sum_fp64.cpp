// The loops of sums in fp64 registers: every deterministic mode, products exact or rounded as sums are.
#include "emulation/arithmetic/lane_sum.h"

namespace apscope::detail {

namespace {

using Real = double;

template <Step P, Step S, bool Odd, std::size_t Lanes>
void set_all(SumKernels<Real>& k) {
    k.accumulate = simd::run<AccumulateTerms<Real, S, Odd, Lanes>, Real*, const Real*, std::size_t, std::size_t, const StepCast<Real>*>;
    k.add_neighbours = simd::run<AddNeighbours<Real, S, Odd, Lanes>, const Real*, Real*, std::size_t, const StepCast<Real>*>;
    k.kahan = simd::run<AccumulateKahan<Real, S, Odd, Lanes>, Real*, Real*, const Real*, std::size_t, std::size_t, const StepCast<Real>*>;
    k.multiply = simd::run<MultiplyTerms<Real, P>, const Real*, const Real*, Real*, std::size_t, const StepCast<Real>*>;
    k.accumulate_products = simd::run<AccumulateProducts<Real, P, S, Odd, Lanes>, Real*, const Real*, const Real*, std::size_t, std::size_t,
                                      const StepCast<Real>*, const StepCast<Real>*>;
}

template <Step S, std::size_t Lanes>
void set_step(SumKernels<Real>& k, bool odd) {
    if (k.product.step == Step::none) odd ? set_all<Step::none, S, true, Lanes>(k) : set_all<Step::none, S, false, Lanes>(k);
    else odd ? set_all<S, S, true, Lanes>(k) : set_all<S, S, false, Lanes>(k);
}

template <std::size_t Lanes>
void set_lanes(SumKernels<Real>& k, bool odd) {
    k.lanes = Lanes;
    switch (k.sum.step) {
        case Step::threshold: return set_step<Step::threshold, Lanes>(k, odd);
        case Step::odd: return set_step<Step::odd, Lanes>(k, odd);
        default: return set_step<Step::addition, Lanes>(k, odd);
    }
}

}  // namespace

SumKernels<Real> sum_kernels(const StepCast<Real>& sum, const StepCast<Real>& product, bool odd, std::size_t lanes) {
    SumKernels<Real> k;
    k.sum = sum;
    k.product = product;
    lanes == few_lanes ? set_lanes<few_lanes>(k, odd) : set_lanes<many_lanes>(k, odd);
    return k;
}

}  // namespace apscope::detail
