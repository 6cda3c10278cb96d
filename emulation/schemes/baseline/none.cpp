// none: quantise what is sent, unscaled. The honest baseline: every worker's value is rounded
// before the wire, and so is every partial sum. In the formats that training systems use it is what others are measured by.
#include "emulation/schemes/scheme.h"
#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

SchemeDefinition none_definition() {
    return {
        "none", "Unscaled", "rounds what is sent to the format, without a scale", "baseline", "gradients", true, float_keys(),
        [](const SchemeArguments& arguments, Scheme& scheme) {
            build_float(arguments, scheme);
            if (const std::string name = arguments.format->name(); name == "fp32" || name == "bf16" || name == "fp16") scheme.family = "baseline";
            scheme.select = [](const SelectionInput& input, State&) { return std::vector<Decision>(input.statistics.size(), power_of_two(0)); };
        }};
}

}  // namespace apscope::detail
