// dynamic_loss_scaling: the state machine of torch.amp.GradScaler.
//
// S starts at `init`. If an element of a worker's gradient or of the reduced gradient is not
// finite, the step is skipped and S becomes fl32(S backoff). After growth_interval steps without a
// skipped step, S becomes fl32(S growth) if this number is finite. A step uses S before the step's
// update. With S = 0 every scaled gradient is 0, which is finite, so the step is not skipped, as in
// torch, and the result is 0 / 0 = NaN.
//
// min_scale and max_scale, which torch does not have, bound S when it falls and when it grows, as
// in OpenSeq2Seq's Backoff.
#include <stdexcept>

#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/loss_scale.h"

namespace apscope::detail {

namespace {

LossScaleBounds bounds_of(const SchemeArguments& arguments) {
    LossScaleBounds bounds;
    if (arguments.text("min_scale") != "none") bounds.min = arguments.scale("min_scale", "none");
    if (arguments.text("max_scale") != "none") bounds.max = arguments.scale("max_scale", "none");
    const double init = initial_loss_scale(arguments);
    if (bounds.min > init || bounds.max < init) {
        throw std::invalid_argument(
            (bounds.min > init ? "min_scale=" + arguments.text("min_scale") + " is above"
                               : "max_scale=" + arguments.text("max_scale") + " is below") +
            " init, which is " + shortest(init));
    }
    return bounds;
}

}  // namespace

SchemeDefinition dynamic_loss_scaling_definition() {
    std::vector<SchemeKey> keys = grad_scaler_keys();
    keys.push_back({"min_scale", "none", "the minimum of S: a positive fp32 number, or none"});
    keys.push_back({"max_scale", "none", "the maximum of S: a positive fp32 number, or none"});
    return {.class_name = "DynamicLossScaling",
            .summary = "a loss scale that halves when a step overflows (the step is dropped) and "
                       "grows after quiet ones",
            .source = "torch.amp.GradScaler (PyTorch torch/amp/grad_scaler.py)",
            .needs =
                "gradients of consecutive steps (activation gradients for more than a lower bound)",
            .takes_format = true,
            .keys = float_keys(keys),
            .note = "lower bound",
            .build = [](const SchemeArguments& arguments) -> SchemeParts {
                return grad_scaler(arguments, {}, bounds_of(arguments));
            }};
}

}  // namespace apscope::detail
