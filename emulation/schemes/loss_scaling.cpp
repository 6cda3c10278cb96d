// loss_scaling: one constant scale for every tensor and step.
//
// scale=best is the largest power of two that keeps headroom times the amax of every selected
// tensor and step within the format: the best a single scale can do, known only in hindsight.
#include <algorithm>

#include "emulation/scheme.h"
#include "emulation/schemes/float_scheme.h"
#include "emulation/schemes/headroom.h"

namespace apscope {

SchemeDefinition loss_scaling_definition() {
    return {
        "loss_scaling",
        "LossScaling",
        "one constant scale S: rounds S g, divides the sum by S",
        "Micikevicius et al., Mixed Precision Training, ICLR 2018 (arXiv:1710.03740)",
        "gradients (activation gradients for more than a lower bound)",
        true,
        float_keys({{"scale", "1024", "S: a positive fp32 number, or best"},
                    {"headroom", "workers", "scale=best: room left for the sum: workers, sqrt_workers or one"}}),
        [](const SchemeArguments& arguments, Scheme& scheme) {
            build_float(arguments, scheme);
            scheme.note = "lower bound";
            const std::string headroom(arguments.choice("headroom", headroom_choices));
            if (arguments.text("scale") != "best") {
                const Decision constant = scale_of(arguments.real("scale"));
                scheme.select = [constant](const SelectionInput& input, State&) {
                    return std::vector<Decision>(input.statistics.size(), constant);
                };
                return;
            }
            const double largest = arguments.format->largest();
            scheme.select = [headroom, largest](const SelectionInput& input, State&) {
                double amax = 0.0;
                for (const AgreedStatistics& s : input.statistics) amax = std::max(amax, s.amax);
                const int exponent = amax == 0.0 ? 0 : largest_shift_within(amax, input.workers, headroom, largest);
                return std::vector<Decision>(input.statistics.size(), power_of_two(exponent));
            };
        }};
}

}  // namespace apscope
