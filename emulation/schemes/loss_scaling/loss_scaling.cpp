// loss_scaling: one constant scale for every tensor and step.
//
// scale=largest is the power of two that aps would choose from the largest amax of all selected
// tensors and steps. scale=best is the power of two whose sums have the least error over all steps;
// it depends on the topology. Both scales require the gradients of all steps in advance.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "emulation/schemes/shared/best_constant.h"
#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

namespace {

// Refuses a value, other than the default, of a key that has a meaning only with another value of
// `scale`.
void refuse_unless_default(const SchemeArguments& arguments, const char* key, const char* usual,
                           const char* belongs_to) {
    if (arguments.text(key) == usual) return;
    throw std::invalid_argument(std::string(key) + "=" + arguments.text(key) + " belongs to " +
                                belongs_to + ", and the scale is " + arguments.text("scale") +
                                "; leave it out");
}

SchemeParts parts_of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 2> figures{"error_over_noise", "step_nmse"};
    const ShiftRule rule = ShiftRule::of(arguments);
    const auto by = arguments.one_of<ByFigure>("by", figures);
    const std::string& scale = arguments.text("scale");
    if (scale == "best") {
        refuse_unless_default(arguments, "rule", "ceil", "scale=largest");
        refuse_unless_default(arguments, "headroom", "workers", "scale=largest");
        SchemeParts parts = float_scheme(arguments, 0);
        // NOLINTNEXTLINE(bugprone-unchecked-optional-access): float_scheme() sets float_encoder
        parts.choice.choose = choose_best_constant(*parts.encoding.float_encoder, by);
        parts.choice.joins_tensors = parts.choice.looks_ahead = true;
        return parts;
    }
    refuse_unless_default(arguments, "by", "step_nmse", "scale=best");
    if (scale != "largest")
        return float_scheme(arguments, scale_of(arguments.scale("scale", "largest, best")));
    SchemeParts parts = float_scheme(arguments, 0, [rule](const SelectionInput& input, State&) {
        double amax = 0.0;
        for (const AgreedStatistics& s : input.statistics) amax = std::max(amax, s.amax);
        return std::vector<Decision>(input.statistics.size(),
                                     power_of_two(rule.shift(amax, input.workers)));
    });
    parts.choice.joins_tensors = true;
    return parts;
}

}  // namespace

SchemeDefinition loss_scaling_definition() {
    return {
        .class_name = "LossScaling",
        .summary = "one constant scale S: rounds S g, divides the sum by S",
        .source = "Micikevicius et al., Mixed Precision Training, ICLR 2018 (arXiv:1710.03740)",
        .needs = "gradients (activation gradients for more than a lower bound)",
        .takes_format = true,
        .keys = float_keys(
            {{"scale", "1024",
              "S: a positive fp32 number; largest: the largest power of two that, with "
              "headroom=workers, saturates nothing before the roundings of the sums; best: the "
              "power of two that errs least, with overflow=saturate also one that clips "
              "gradients or their sums"},
             headroom_key("workers",
                          "scale=largest: room left for the sum: workers, sqrt_workers or one"),
             {"rule", "ceil",
              "scale=largest: ceil: E - ceil(log2(H amax)), as aps; tight: the largest shift "
              "with H amax 2^s <= largest"},
             {"by", "step_nmse",
              "scale=best: the figure that is least: step_nmse, or error_over_noise, which needs "
              "several workers and does not see what clips in few blocks"}}),
        .note = "lower bound",
        .build = parts_of};
}

}  // namespace apscope::detail
