// dynamic_loss_scaling: the state machine of torch.amp.GradScaler.
//
// S starts at `init`. A step is skipped if some element of the reduced gradient is not finite, or
// of a worker's was not before, and S becomes fl32(S backoff). After growth_interval steps without
// one, S becomes fl32(S growth) if that is finite. The scale in force at a step is the one before
// its update. S = 0 multiplies finite gradients to 0, which is finite, and 0 / 0 is NaN: such a
// step is not skipped, as in torch.
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
