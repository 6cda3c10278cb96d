// loss_scaling: one constant scale for every tensor and step.
//
// scale=best is the power of two that aps would take if everything selected were one tensor: by the same rule from
// the largest amax of all tensors and steps. The best a single scale can do, known only in hindsight.
#include <algorithm>

#include "emulation/schemes/scheme.h"
#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/headroom.h"
#include "emulation/schemes/shared/shifts.h"

namespace apscope::detail {

SchemeDefinition loss_scaling_definition() {
    return {
        "loss_scaling",
        "LossScaling",
        "one constant scale S: rounds S g, divides the sum by S",
        "Micikevicius et al., Mixed Precision Training, ICLR 2018 (arXiv:1710.03740)",
        "gradients (activation gradients for more than a lower bound)",
        true,
        float_keys({{"scale", "1024", "S: a positive fp32 number, or best"},
                    {"headroom", "workers", "scale=best: room left for the sum: workers, sqrt_workers or one"},
                    {"rule", "ceil", "scale=best: ceil: E - ceil(log2(H amax)), as aps; tight: the largest shift with H amax 2^s <= largest"}}),
        [](const SchemeArguments& arguments, Scheme& scheme) {
            build_float(arguments, scheme);
            scheme.note = "lower bound";
            const ShiftRule rule{*arguments.format, std::string(arguments.choice("headroom", headroom_choices)),
                                 arguments.choice("rule", shift_rules) == "tight"};
            if (arguments.text("scale") != "best") {
                const Decision constant = scale_of(arguments.real("scale"));
                scheme.select = [constant](const SelectionInput& input, State&) {
                    return std::vector<Decision>(input.statistics.size(), constant);
                };
                return;
            }
            scheme.select = [rule](const SelectionInput& input, State&) {
                double amax = 0.0;
                for (const AgreedStatistics& s : input.statistics) amax = std::max(amax, s.amax);
                return std::vector<Decision>(input.statistics.size(), power_of_two(rule.own(amax, input.workers)));
            };
        }};
}

}  // namespace apscope::detail
