// stochastic: stochastic rounding to a float grid. The amax is agreed by MAX, the scale is APS's
// with headroom one (nothing is summed in the format), the codes are gathered and added in fp32.
#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

SchemeDefinition stochastic_definition() {
    return {
        .class_name = "Stochastic",
        .summary =
            "stochastic rounding to a float grid at the agreed amax; gathered and added in fp32",
        .source = "Gupta et al., Deep Learning with Limited Numerical Precision, ICML 2015, on a "
                  "float grid",
        .needs = "gradients",
        .takes_format = true,
        .keys = {{"random_bits", "32", "random bits of stochastic rounding, 1 to 64"},
                 {"overflow", "ieee",
                  "the result of overflow: ieee, saturate, propagate, infinity or nan"}},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            return gathered_scheme(arguments, *arguments.format,
                                   parse_overflow(arguments.text("overflow")));
        }};
}

}  // namespace apscope::detail
