// One bit, votes and memories.
#include "emulation/schemes/groups.h"

namespace apscope {

std::vector<SchemeDefinition> one_bit_group() { return {}; }

}  // namespace apscope
