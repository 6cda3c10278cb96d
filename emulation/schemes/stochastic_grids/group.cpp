// Stochastic quantization.
#include "emulation/schemes/shared/groups.h"

namespace apscope::detail {

SchemeDefinition stochastic_definition();
SchemeDefinition natural_definition();
SchemeDefinition qsgd_definition();
SchemeDefinition terngrad_definition();
SchemeDefinition zipml_definition();
SchemeDefinition bit_centering_definition();
SchemeDefinition fractrain_definition();

std::vector<SchemeDefinition> stochastic_grids_group() {
    return in_family("stochastic", {stochastic_definition(), natural_definition(), qsgd_definition(), terngrad_definition(),
                                    zipml_definition(), bit_centering_definition(), fractrain_definition()});
}

}  // namespace apscope::detail
