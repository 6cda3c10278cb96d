// The loops of sums in fp32 registers, for ties to even and every pair of steps.
#include "emulation/arithmetic/register_sum_loops.h"

namespace apscope::detail {

SumKernels<float> sum_kernels(const StepCast<float>& sum, const StepCast<float>& product, bool,
                              std::size_t lanes) {
    return make_sum_kernels<float>(
        sum, product, lanes, [&]<std::size_t Lanes>(SumKernels<float>& k) {
            with_fp32_step(product.step, [&]<Step P>() {
                with_fp32_step(sum.step,
                               [&]<Step S>() { set_loops<float, P, S, false, Lanes>(k); });
            });
        });
}

}  // namespace apscope::detail
