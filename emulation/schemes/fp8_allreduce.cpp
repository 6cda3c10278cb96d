// fp8_allreduce: the gradient all-reduce of FP8-LM: like aps, but with headroom for sqrt(W) of W values, a
// real number, and saturation instead of overflow.
//
//      scale = 2^floor(log2(M / amax)) / H      amax agreed by MAX, H = sqrt(W), rounded to fp32
//
// codes are summed in the format, hop by hop. A tensor of zeros keeps the scale of the step before (1 at first).
#include <cmath>

#include "emulation/schemes/float_scheme.h"
#include "emulation/schemes/headroom.h"

namespace apscope {

SchemeDefinition fp8_allreduce_definition() {
    return {"fp8_allreduce",
            "FP8AllReduce",
            "an agreed scale with square-root headroom, saturating; summed in the format",
            "Peng et al., FP8-LM: Training FP8 Large Language Models (arXiv:2310.18313); its code, MS-AMP",
            "gradients",
            true,
            float_keys({{"headroom", "sqrt_workers", "room left for the sum: workers, sqrt_workers or one"}}, "ties_to_even", "saturate"),
            [](const SchemeArguments& arguments, Scheme& scheme) {
                build_float(arguments, scheme);
                const std::string headroom(arguments.choice("headroom", headroom_choices));
                scheme.keeps_state = true;
                scheme.side_bits = [](std::size_t) -> std::uint64_t { return 8; };
                scheme.select = [headroom, largest = arguments.format->largest()](const SelectionInput& input, State& state) {
                    const double workers = input.workers;
                    const double room = headroom == "one" ? 1.0 : headroom == "workers" ? workers : std::sqrt(workers);
                    std::vector<Decision> decisions(input.statistics.size());
                    for (std::size_t k = 0; k < input.tensors; ++k) {
                        Row& scale = state.try_emplace("scale/" + input.names[k], Row{1.0}).first->second;
                        for (std::size_t t = 0; t < input.steps; ++t) {
                            const double amax = input.at(t, k).amax;
                            if (amax != 0.0) {
                                // fp32's significand at any exponent: 1 / H first, then the power of two.
                                const auto reciprocal = static_cast<double>(static_cast<float>(1.0 / room));
                                scale.at(0) = std::ldexp(reciprocal, largest_shift_within(amax, 1, "one", largest));
                            }
                            decisions[t * input.tensors + k] = scale_of(scale.at(0));
                        }
                    }
                    return decisions;
                };
            }};
}

}  // namespace apscope
