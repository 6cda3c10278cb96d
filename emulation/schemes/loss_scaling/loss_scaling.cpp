// loss_scaling: one constant scale for every tensor and step.
//
// scale=best is the power of two that aps would take if everything selected were one tensor: by the
// same rule from the largest amax of all tensors and steps. The best a single scale can do, known
// only in hindsight.
#include <algorithm>

#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

SchemeDefinition loss_scaling_definition() {
    return {.class_name = "LossScaling",
            .summary = "one constant scale S: rounds S g, divides the sum by S",
            .source = "Micikevicius et al., Mixed Precision Training, ICLR 2018 (arXiv:1710.03740)",
            .needs = "gradients (activation gradients for more than a lower bound)",
            .takes_format = true,
            .keys = float_keys(
                {{"scale", "1024", "S: a positive fp32 number, or best"},
                 headroom_key("workers",
                              "scale=best: room left for the sum: workers, sqrt_workers or one"),
                 {"rule", "ceil",
                  "scale=best: ceil: E - ceil(log2(H amax)), as aps; tight: the largest shift with "
                  "H amax 2^s <= largest"}}),
            .note = "lower bound",
            .build = [](const SchemeArguments& arguments) -> SchemeParts {
        const ShiftRule rule = ShiftRule::of(arguments);
        if (arguments.text("scale") != "best")
            return float_scheme(arguments, 0,
                                choose_constant(scale_of(arguments.scale("scale", "best"))));
        const auto best = [rule](const SelectionInput& input, State&) {
            double amax = 0.0;
            for (const AgreedStatistics& s : input.statistics) amax = std::max(amax, s.amax);
            return std::vector<Decision>(input.statistics.size(),
                                         power_of_two(rule.own(amax, input.workers)));
        };
        return float_scheme(arguments, 0, best);
    }};
}

}  // namespace apscope::detail
