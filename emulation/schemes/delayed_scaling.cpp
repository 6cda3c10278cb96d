// delayed_scaling: the scale of a step comes from the amax of the steps before it, so that nothing has to be
// agreed on before sending.
//
//      step t rounds scale_t g, saturating; scale_0 = 1
//      the history of a tensor holds the last `history` amaxes, agreed by MAX
//      a = the largest of them, or the last one
//      scale_{t+1} = fl32(fl32(M 2^-margin) / a), at most the largest fp32 number; a = 0: the old scale
//
// Codes are gathered, decoded and added in fp32. Elements that are not finite do not enter the history.
#include <array>
#include <cmath>
#include <limits>

#include "emulation/schemes/float_scheme.h"

namespace apscope {

namespace {

struct Delayed {
    std::size_t history;
    bool most_recent;
    float target;  // M 2^-margin

    float next(const Row& seen, float old) const {
        double amax = seen.empty() ? 0.0 : seen.back();
        if (!most_recent) {
            for (const double a : seen) amax = std::max(amax, a);
        }
        if (amax == 0.0) return old;
        const float scale = target / static_cast<float>(amax);
        return std::isinf(scale) ? std::numeric_limits<float>::max() : scale;
    }
    std::vector<Decision> select(const SelectionInput& input, State& state) const {
        std::vector<Decision> decisions(input.statistics.size());
        for (std::size_t k = 0; k < input.tensors; ++k) {
            Row& scale = state.try_emplace("scale/" + input.names[k], Row{1.0}).first->second;
            Row& seen = state["history/" + input.names[k]];
            for (std::size_t t = 0; t < input.steps; ++t) {
                decisions[t * input.tensors + k] = scale_of(scale.at(0));
                seen.push_back(input.at(t, k).amax);
                if (seen.size() > history) seen.erase(seen.begin());
                scale[0] = next(seen, static_cast<float>(scale[0]));
            }
        }
        return decisions;
    }
};

}  // namespace

SchemeDefinition delayed_scaling_definition() {
    return {"delayed_scaling",
            "DelayedScaling",
            "a real scale per tensor from the largest amax of the steps before; gathered and added in fp32",
            "NVIDIA Transformer Engine, recipe DelayedScaling",
            "gradients of consecutive steps",
            true,
            gathered_float_keys({{"history", "1024", "steps that are remembered"},
                                 {"algo", "max", "max: the largest amax remembered; most_recent: the last step's"},
                                 {"margin", "0", "binades left free below the largest value, 0 to 64"}},
                                "ties_to_even", "saturate"),
            [](const SchemeArguments& arguments, Scheme& scheme) {
                constexpr std::array<std::string_view, 2> algorithms{"max", "most_recent"};
                build_gathered_float(arguments, scheme);
                Delayed d;
                d.history = static_cast<std::size_t>(arguments.integer("history", 1, 1 << 20));
                d.most_recent = arguments.choice("algo", algorithms) == "most_recent";
                d.target = static_cast<float>(std::ldexp(arguments.format->largest(), -static_cast<int>(arguments.integer("margin", 0, 64))));
                scheme.keeps_state = true;
                scheme.side_bits = [](std::size_t) -> std::uint64_t { return 32; };
                scheme.select = [d](const SelectionInput& input, State& state) { return d.select(input, state); };
            }};
}

}  // namespace apscope
