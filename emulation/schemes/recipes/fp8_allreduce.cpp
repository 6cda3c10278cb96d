// fp8_allreduce: gradients that are added in the format they are sent in, under one scale for all workers.
//
//      a = amax over all workers and elements; infinite if any is not finite
//      S = fl32(2^floor(log2(largest / a)) / sqrt(W))     the last step's S (at first 1) if a is 0 or infinite
//      c = saturating round(S g), summed in the format with saturation, divided by S
//
// sqrt(W) is room enough for gradients that are independent between workers, and too little for equal ones.
// The exponent is exact and at most 127. headroom: W or 1 instead of sqrt(W).
#include <algorithm>
#include <array>
#include <cmath>

#include "emulation/schemes/recipes/recipe_scales.h"
#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/headroom.h"

namespace apscope::detail {

namespace {

double room(int workers, std::string_view headroom) {
    if (headroom == "one") return 1.0;
    return headroom == "workers" ? 1.0 / workers : 1.0 / std::sqrt(static_cast<double>(workers));
}

}  // namespace

SchemeDefinition fp8_allreduce_definition() {
    return {"fp8_allreduce",
            "FP8AllReduce",
            "a scale a tensor with room of sqrt(W), saturating, summed in the format",
            "Peng et al., FP8-LM (arXiv:2310.18313); its code, MS-AMP (msamp/nn/distributed.py)",
            "gradients",
            true,
            saturating_keys({{"headroom", "sqrt_workers", "room left for the sum: sqrt_workers, workers or one"}}, "format"),
            [](const SchemeArguments& arguments, Scheme& scheme) {
                build_float(arguments, scheme);
                const std::string headroom(arguments.choice("headroom", headroom_choices));
                scheme.keeps_state = true;
                scheme.side_bits = [](std::size_t) -> std::uint64_t { return 32; };  // the amax
                scheme.select = [headroom, largest = arguments.format->largest()](const SelectionInput& input, State& state) {
                    std::vector<Decision> decisions;
                    for (std::size_t i = 0; i < input.statistics.size(); ++i) {
                        const AgreedStatistics& s = input.statistics[i];
                        double& scale = state.try_emplace("scale/" + input.names.at(i % input.tensors), Row{1.0}).first->second.at(0);
                        if (s.amax > 0.0 && s.nonfinite == 0) {
                            const int exponent = std::min(largest_shift_within(s.amax, 1, "one", largest), 127);
                            scale = static_cast<float>(std::ldexp(room(input.workers, headroom), exponent));
                        }
                        decisions.push_back(scale_of(scale));
                    }
                    return decisions;
                };
            }};
}

}  // namespace apscope::detail
