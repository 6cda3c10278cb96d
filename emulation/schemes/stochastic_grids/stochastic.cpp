// stochastic: stochastic rounding to a float grid. The scale is that of aps with headroom=one,
// because nothing is summed in the format; its amax is the maximum over all workers. The codes are
// gathered, decoded and added in fp32.
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
                 correlated_key,
                 {"overflow", "ieee",
                  "the result of overflow: ieee, saturate, propagate, infinity or nan"}},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            return gathered_scheme(arguments, *arguments.format,
                                   parse_overflow(arguments.text("overflow")));
        }};
}

}  // namespace apscope::detail
