// none rounds every worker's values before they are sent, and every partial sum, to the format
// without a scale. In the formats of training systems, such as bf16, this scheme is the reference
// for other schemes.
#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

SchemeDefinition none_definition() {
    return {.class_name = "Unscaled",
            .summary = "rounds the sent values to the format, without a scale",
            .source = "baseline",
            .needs = "gradients",
            .takes_format = true,
            .keys = float_keys(),
            .build = [](const SchemeArguments& arguments) -> SchemeParts {
                return float_scheme(arguments, power_of_two(0));
            },
            .family_of = [](const SchemeArguments& arguments) -> std::string_view {
                const std::string name = arguments.format->name();
                return name == "fp32" || name == "bf16" || name == "fp16" ? "baseline" : "unscaled";
            }};
}

}  // namespace apscope::detail
