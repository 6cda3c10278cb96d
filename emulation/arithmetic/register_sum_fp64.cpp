// The loops of sums in fp64 registers, for every deterministic mode. Products are exact, or are
// rounded in the same mode.
#include "emulation/arithmetic/register_sum_loops.h"

namespace apscope::detail {

SumKernels<double> sum_kernels(const StepCast<double>& sum, const StepCast<double>& product,
                               bool odd, std::size_t lanes) {
    return make_sum_kernels<double>(
        sum, product, lanes, [&]<std::size_t Lanes>(SumKernels<double>& k) {
            const auto set = [&]<Step S>() {
                if (product.step == Step::none)
                    odd ? set_loops<double, Step::none, S, true, Lanes>(k)
                        : set_loops<double, Step::none, S, false, Lanes>(k);
                else
                    odd ? set_loops<double, S, S, true, Lanes>(k)
                        : set_loops<double, S, S, false, Lanes>(k);
            };
            switch (sum.step) {
                case Step::threshold: return set.template operator()<Step::threshold>();
                case Step::odd: return set.template operator()<Step::odd>();
                default: return set.template operator()<Step::addition>();
            }
        });
}

}  // namespace apscope::detail
