// Loss scales.
#include "emulation/schemes/shared/groups.h"

namespace apscope::detail {

SchemeDefinition loss_scaling_definition();
SchemeDefinition dynamic_loss_scaling_definition();
SchemeDefinition deepspeed_loss_scaling_definition();
SchemeDefinition enhanced_loss_scaling_definition();
SchemeDefinition adaptive_loss_scaling_definition();
SchemeDefinition hfp8_definition();

std::vector<SchemeDefinition> loss_scaling_group() {
    return in_family("loss scaling", {loss_scaling_definition(), dynamic_loss_scaling_definition(), deepspeed_loss_scaling_definition(),
                                      enhanced_loss_scaling_definition(), adaptive_loss_scaling_definition(), hfp8_definition()});
}

}  // namespace apscope::detail
