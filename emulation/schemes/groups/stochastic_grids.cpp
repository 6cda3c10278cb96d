// Stochastic quantization.
#include "emulation/schemes/groups.h"

namespace apscope {

SchemeDefinition stochastic_definition();
SchemeDefinition qsgd_definition();
SchemeDefinition natural_definition();
SchemeDefinition terngrad_definition();
SchemeDefinition zipml_definition();

std::vector<SchemeDefinition> stochastic_grids_group() { return {stochastic_definition(), qsgd_definition(), natural_definition(), terngrad_definition(), zipml_definition()}; }

}  // namespace apscope
