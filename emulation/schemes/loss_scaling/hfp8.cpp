// hfp8 is Hybrid FP8 for gradients. Messages are in the format 1-5-2 (hfp8:e5m2) with a constant
// loss scale; partial sums are in a 16-bit float with six exponent bits, 1-6-9 (dlfloat16). For
// sums in chunks, give the topology `hierarchical:CHUNK`. HFP8's format of the forward pass, 1-4-3
// with bias 11, is the format hfp8_forward without subnormals and e4m3b11fnuz with subnormals. For
// the residuals of weights see apscope.studies.weight_updates.
#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

SchemeDefinition hfp8_definition() {
    return {.class_name = "HFP8",
            .summary =
                "a constant loss scale, eight bits on the wire, sums in the 16-bit float 1-6-9",
            .source = "Sun et al., Hybrid 8-bit Floating Point (HFP8) Training and Inference for "
                      "Deep Neural Networks, NeurIPS 2019",
            .needs = "gradients (activation gradients for more than a lower bound)",
            .takes_format = true,
            .keys = float_keys({{"scale", "1024", "S: a positive fp32 number or a power of two"}},
                               {.accumulate = "dlfloat16"}),
            .note = "lower bound",
            .build = [](const SchemeArguments& arguments) -> SchemeParts {
                return float_scheme(arguments, scale_of(arguments.scale("scale")));
            }};
}

}  // namespace apscope::detail
