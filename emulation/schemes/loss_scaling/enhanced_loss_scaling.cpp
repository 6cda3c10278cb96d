// enhanced_loss_scaling: torch's dynamic loss scale with a minimum that a schedule sets, and with
// stochastic rounding.
//
//      S(t) = max(S, S_min(t)), then as dynamic_loss_scaling
//
// An overflow when S is at the minimum drops the step, but does not lower the scale: in a format
// with few subnormals, one outlier would otherwise flush all other elements to 0 for thousands of
// steps.
#include <algorithm>
#include <stdexcept>

#include "core/parse.h"
#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/loss_scale.h"

namespace apscope::detail {

namespace {

[[noreturn]] void refuse(const std::string& text, const std::string& part) {
    throw std::invalid_argument("minimum=" + text + " has '" + part +
                                "' in the place of STEP:VALUE, with ascending steps and positive "
                                "fp32 numbers (such as 0:1024/5000:8192)");
}

// Reads STEP:VALUE/STEP:VALUE..., with ascending steps, or the word `none`.
MinimumSchedule read_schedule(const std::string& text) {
    MinimumSchedule schedule;
    if (text == "none") return schedule;
    for (std::size_t first = 0; first <= text.size();) {
        const std::size_t end = std::min(text.find('/', first), text.size());
        const std::string part = text.substr(first, end - first);
        const std::size_t colon = std::min(part.find(':'), part.size());
        if (colon == part.size()) refuse(text, part);
        const auto step = parse_number<std::int64_t>(std::string_view(part).substr(0, colon));
        const auto value = parse_number<double>(std::string_view(part).substr(colon + 1));
        const bool single = value && *value >= 0x1p-126 && *value <= 0x1.fffffep127 &&
                            static_cast<double>(static_cast<float>(*value)) == *value;
        if (!single || !step || *step < 0 ||
            (!schedule.empty() && *step <= schedule.rbegin()->first))
            refuse(text, part);
        schedule[*step] = *value;
        first = end + 1;
    }
    return schedule;
}

}  // namespace

SchemeDefinition enhanced_loss_scaling_definition() {
    std::vector<SchemeKey> keys = grad_scaler_keys();
    keys.push_back({"minimum", "0:1024",
                    "the minimum of S from a step on: STEP:VALUE/STEP:VALUE..., or none"});
    return {.class_name = "EnhancedLossScaling",
            .summary = "a dynamic loss scale above a scheduled minimum, stochastic rounding",
            .source = "Mellempudi, Srinivasan, Das, Kaul, Mixed Precision Training With 8-bit "
                      "Floating Point (arXiv:1905.12334)",
            .needs =
                "gradients of consecutive steps (activation gradients for more than a lower bound)",
            .takes_format = true,
            .keys = float_keys(keys, {.rounding = "stochastic"}),
            .note = "lower bound",
            .build = [](const SchemeArguments& arguments) -> SchemeParts {
                return grad_scaler(arguments, read_schedule(arguments.text("minimum")));
            }};
}

}  // namespace apscope::detail
