// dynamic_loss_scaling: the state machine of torch.amp.GradScaler.
//
// S starts at `init`. A step in which some worker's encoded value overflows or is not finite is
// skipped, and S becomes fl32(S backoff). After growth_interval steps without one, S becomes
// fl32(S growth) if that is finite. The scale in force at a step is the one before its update.
#include "emulation/schemes/loss_scaling/loss_scale.h"
#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

SchemeDefinition dynamic_loss_scaling_definition() {
    return {"dynamic_loss_scaling",
            "DynamicLossScaling",
            "a loss scale that halves when a step overflows (the step is dropped) and grows after quiet ones",
            "torch.amp.GradScaler (PyTorch torch/amp/grad_scaler.py)",
            "gradients of consecutive steps (activation gradients for more than a lower bound)",
            true,
            float_keys(grad_scaler_keys()),
            [](const SchemeArguments& arguments, Scheme& scheme) {
                build_float(arguments, scheme);
                scheme.note = "lower bound";
                scheme.keeps_state = true;
                scheme.select = grad_scaler(arguments, std::get<FloatGrid>(scheme.grid));
            }};
}

}  // namespace apscope::detail
