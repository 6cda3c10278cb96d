// dynamic_loss_scaling: the state machine of torch.amp.GradScaler.
//
// S starts at `init`. If an element of a worker's gradient or of the reduced gradient is not
// finite, the step is skipped and S becomes fl32(S backoff). After growth_interval steps without a
// skipped step, S becomes fl32(S growth) if this number is finite. A step uses S before the step's
// update. With S = 0 every scaled gradient is 0, which is finite, so the step is not skipped, as in
// torch, and the result is 0 / 0 = NaN.
#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/loss_scale.h"

namespace apscope::detail {

SchemeDefinition dynamic_loss_scaling_definition() {
    return {.class_name = "DynamicLossScaling",
            .summary = "a loss scale that halves when a step overflows (the step is dropped) and "
                       "grows after quiet ones",
            .source = "torch.amp.GradScaler (PyTorch torch/amp/grad_scaler.py)",
            .needs =
                "gradients of consecutive steps (activation gradients for more than a lower bound)",
            .takes_format = true,
            .keys = float_keys(grad_scaler_keys()),
            .note = "lower bound",
            .build = [](const SchemeArguments& arguments) -> SchemeParts {
                return grad_scaler(arguments);
            }};
}

}  // namespace apscope::detail
