// Auto Precision Scaling and its relatives.
#include "emulation/schemes/shared/groups.h"

namespace apscope::detail {

SchemeDefinition aps_definition();
SchemeDefinition cpd_definition();

std::vector<SchemeDefinition> aps_group() { return in_family("APS", {aps_definition(), cpd_definition()}); }

}  // namespace apscope::detail
