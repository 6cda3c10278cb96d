// hybrid(CONDITION=SPEC;...;else=SPEC): every tensor, at every step, goes through the first scheme
// whose condition holds (emulation/schemes/policy.h).
#include "emulation/schemes/policy.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

SchemeDefinition hybrid_definition() {
    return {"hybrid",
            "Hybrid",
            "a scheme of its own for some layers, roles or steps: hybrid(last=none:fp16;else=aps:e4m3)",
            "the hybrid precision of Auto Precision Scaling (arXiv:1911.08907); which layers it mixes is not known here",
            "what its branches need",
            false,
            {},
            [](const SchemeArguments& arguments, Scheme& scheme) { scheme.policy = parse_policy(arguments.body); },
            SchemeDefinition::Body::policy};
}

}  // namespace apscope::detail
