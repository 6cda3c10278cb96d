// The loops of sums in fp64 registers: every deterministic mode, products exact or rounded as sums are.
#include "emulation/lane_sum.h"

namespace apscope {

namespace {

using Real = double;

template <Step P, Step S, bool Odd>
void set_all(SumKernels<Real>& k) {
    k.accumulate = simd::run<AccumulateTerms<Real, S, Odd>, Real*, const Real*, std::size_t, std::size_t, const StepCast<Real>*>;
    k.kahan = simd::run<AccumulateKahan<Real, S, Odd>, Real*, Real*, const Real*, std::size_t, std::size_t, const StepCast<Real>*>;
    k.multiply = simd::run<MultiplyTerms<Real, P>, const Real*, const Real*, Real*, std::size_t, const StepCast<Real>*>;
    k.accumulate_products = simd::run<AccumulateProducts<Real, P, S, Odd>, Real*, const Real*, const Real*, std::size_t, std::size_t,
                                      const StepCast<Real>*, const StepCast<Real>*>;
}

template <Step S>
void set_step(SumKernels<Real>& k, bool odd) {
    if (k.product.step == Step::none) odd ? set_all<Step::none, S, true>(k) : set_all<Step::none, S, false>(k);
    else odd ? set_all<S, S, true>(k) : set_all<S, S, false>(k);
}

}  // namespace

SumKernels<Real> sum_kernels(const StepCast<Real>& sum, const StepCast<Real>& product, bool odd) {
    SumKernels<Real> k;
    k.sum = sum;
    k.product = product;
    switch (sum.step) {
        case Step::threshold: set_step<Step::threshold>(k, odd); break;
        case Step::odd: set_step<Step::odd>(k, odd); break;
        default: set_step<Step::addition>(k, odd);
    }
    return k;
}

}  // namespace apscope
