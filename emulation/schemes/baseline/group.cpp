// What every comparison needs: the baseline and the combinators.
#include "emulation/schemes/shared/groups.h"

namespace apscope::detail {

SchemeDefinition none_definition();
SchemeDefinition hybrid_definition();
SchemeDefinition error_feedback_definition();

std::vector<SchemeDefinition> baseline_group() { return in_family("unscaled", {none_definition(), hybrid_definition(), error_feedback_definition()}); }

}  // namespace apscope::detail
