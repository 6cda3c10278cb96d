// residual(SPEC): the inner scheme encodes the row, then the remaining error, and so on, at most
// `points` times in all (points.h). The sum of three bf16 encodings with scale 1 represents an fp32
// number.
#include <stdexcept>

#include "emulation/schemes/definition.h"
#include "emulation/schemes/shared/points.h"

namespace apscope::detail {

SchemeDefinition residual_definition() {
    return {
        .class_name = "Residual",
        .summary = "a sum of several encodings, each of the remainder of those before",
        .source = "Liu et al., Post-training Quantization with Multiple Points, AAAI 2021 "
                  "(arXiv:2002.09049), on gradients",
        .needs = "gradients",
        .body = SchemeDefinition::Body::scheme,
        .keys = {{"points", "2", "maximum number of encodings per tensor"},
                 {"nmse", "0", "stop at this normalised squared error; 0: never"}},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            const SchemeParts& inner = arguments.inner->inner_parts();
            if (inner.keeps_state() || inner.memory.compares_intended ||
                inner.memory.compensates() || inner.memory.updates() || inner.encoding.reduces()) {
                throw std::invalid_argument("scheme '" + arguments.inner->spec +
                                            "' has memory or its own reduction; residual needs a "
                                            "scheme that is gathered or "
                                            "rounds to a float format, such as aps:e4m3 or qsgd");
            }
            return in_points(inner, arguments.integer("points", 1, 64), arguments.fraction("nmse"));
        }};
}

}  // namespace apscope::detail
