// The loops of sums in fp32 registers: ties to even, every pair of steps.
#include "emulation/lane_sum.h"

namespace apscope {

namespace {

using Real = float;

template <Step S>
void set_sum(SumKernels<Real>& k) {
    k.accumulate = simd::run<AccumulateTerms<Real, S, false>, Real*, const Real*, std::size_t, std::size_t, const StepCast<Real>*>;
    k.kahan = simd::run<AccumulateKahan<Real, S, false>, Real*, Real*, const Real*, std::size_t, std::size_t, const StepCast<Real>*>;
}

template <Step P, Step S>
void set_both(SumKernels<Real>& k) {
    set_sum<S>(k);
    k.multiply = simd::run<MultiplyTerms<Real, P>, const Real*, const Real*, Real*, std::size_t, const StepCast<Real>*>;
    k.accumulate_products = simd::run<AccumulateProducts<Real, P, S, false>, Real*, const Real*, const Real*, std::size_t, std::size_t,
                                      const StepCast<Real>*, const StepCast<Real>*>;
}

template <Step P>
void set_product(SumKernels<Real>& k) {
    switch (k.sum.step) {
        case Step::addition: return set_both<P, Step::addition>(k);
        case Step::bits: return set_both<P, Step::bits>(k);
        default: return set_both<P, Step::none>(k);
    }
}

}  // namespace

SumKernels<Real> sum_kernels(const StepCast<Real>& sum, const StepCast<Real>& product, bool) {
    SumKernels<Real> k;
    k.sum = sum;
    k.product = product;
    switch (product.step) {
        case Step::addition: set_product<Step::addition>(k); break;
        case Step::bits: set_product<Step::bits>(k); break;
        default: set_product<Step::none>(k);
    }
    return k;
}

}  // namespace apscope
