// The loops of sums in fp32 registers: ties to even, every pair of steps.
#include "emulation/arithmetic/lane_sum.h"

namespace apscope::detail {

namespace {

using Real = float;

template <Step S, std::size_t Lanes>
void set_sum(SumKernels<Real>& k) {
    k.accumulate = simd::run<AccumulateTerms<Real, S, false, Lanes>, Real*, const Real*, std::size_t, std::size_t, const StepCast<Real>*>;
    k.add_neighbours = simd::run<AddNeighbours<Real, S, false, Lanes>, const Real*, Real*, std::size_t, const StepCast<Real>*>;
    k.kahan = simd::run<AccumulateKahan<Real, S, false, Lanes>, Real*, Real*, const Real*, std::size_t, std::size_t, const StepCast<Real>*>;
}

template <Step P, Step S, std::size_t Lanes>
void set_both(SumKernels<Real>& k) {
    set_sum<S, Lanes>(k);
    k.multiply = simd::run<MultiplyTerms<Real, P>, const Real*, const Real*, Real*, std::size_t, const StepCast<Real>*>;
    k.accumulate_products = simd::run<AccumulateProducts<Real, P, S, false, Lanes>, Real*, const Real*, const Real*, std::size_t, std::size_t,
                                      const StepCast<Real>*, const StepCast<Real>*>;
}

template <Step P, std::size_t Lanes>
void set_product(SumKernels<Real>& k) {
    switch (k.sum.step) {
        case Step::addition: return set_both<P, Step::addition, Lanes>(k);
        case Step::bits: return set_both<P, Step::bits, Lanes>(k);
        default: return set_both<P, Step::none, Lanes>(k);
    }
}

template <std::size_t Lanes>
void set_lanes(SumKernels<Real>& k) {
    k.lanes = Lanes;
    switch (k.product.step) {
        case Step::addition: return set_product<Step::addition, Lanes>(k);
        case Step::bits: return set_product<Step::bits, Lanes>(k);
        default: return set_product<Step::none, Lanes>(k);
    }
}

}  // namespace

SumKernels<Real> sum_kernels(const StepCast<Real>& sum, const StepCast<Real>& product, bool, std::size_t lanes) {
    SumKernels<Real> k;
    k.sum = sum;
    k.product = product;
    lanes == few_lanes ? set_lanes<few_lanes>(k) : set_lanes<many_lanes>(k);
    return k;
}

}  // namespace apscope::detail
