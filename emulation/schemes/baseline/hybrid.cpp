// hybrid(CONDITION=SPEC;...;else=SPEC): every tensor, at every step, is processed by the first
// scheme whose condition holds (emulation/schemes/policy.h).
#include "emulation/schemes/definition.h"

namespace apscope::detail {

SchemeDefinition hybrid_definition() {
    return {
        .class_name = "Hybrid",
        .summary =
            "different schemes for layers, roles or steps: hybrid(last=none:fp16;else=aps:e4m3)",
        .source = "the hybrid precision of Auto Precision Scaling (arXiv:1911.08907); which layers "
                  "it mixes is not known here",
        .needs = "the inputs of its branches",
        .body = SchemeDefinition::Body::policy,
        .build = [](const SchemeArguments&) {
            return SchemeParts{.grid = "hybrid"};  // each branch has its own parts
        }};
}

}  // namespace apscope::detail
