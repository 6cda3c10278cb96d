// Formats and recipes: scales per tensor or block.
#include "emulation/schemes/shared/groups.h"

namespace apscope::detail {

SchemeDefinition delayed_scaling_definition();
SchemeDefinition current_scaling_definition();
SchemeDefinition fp8_allreduce_definition();
SchemeDefinition mx_definition();
SchemeDefinition nvfp4_definition();

std::vector<SchemeDefinition> recipes_group() {
    return in_family("recipe", {delayed_scaling_definition(), current_scaling_definition(), fp8_allreduce_definition(), mx_definition(), nvfp4_definition()});
}

}  // namespace apscope::detail
