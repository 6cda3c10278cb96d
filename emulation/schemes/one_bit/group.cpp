// One bit, votes and memories.
#include "emulation/schemes/shared/groups.h"

namespace apscope::detail {

SchemeDefinition sign_definition();
SchemeDefinition sign_vote_definition();
SchemeDefinition onebit_adam_definition();
SchemeDefinition birder_definition();
SchemeDefinition residual_definition();
SchemeDefinition multipoint_definition();

std::vector<SchemeDefinition> one_bit_group() {
    return in_family("one bit", {sign_definition(), sign_vote_definition(), onebit_adam_definition(), birder_definition(),
                                 residual_definition(), multipoint_definition()});
}

}  // namespace apscope::detail
