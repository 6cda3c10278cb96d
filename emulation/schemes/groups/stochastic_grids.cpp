// Stochastic quantization.
#include "emulation/schemes/groups.h"

namespace apscope {

SchemeDefinition stochastic_definition();
SchemeDefinition qsgd_definition();

std::vector<SchemeDefinition> stochastic_grids_group() { return {stochastic_definition(), qsgd_definition()}; }

}  // namespace apscope
