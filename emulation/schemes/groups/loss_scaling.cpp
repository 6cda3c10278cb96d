// Loss scales.
#include "emulation/schemes/groups.h"

namespace apscope {

SchemeDefinition loss_scaling_definition();
SchemeDefinition dynamic_loss_scaling_definition();

std::vector<SchemeDefinition> loss_scaling_group() { return {loss_scaling_definition(), dynamic_loss_scaling_definition()}; }

}  // namespace apscope
