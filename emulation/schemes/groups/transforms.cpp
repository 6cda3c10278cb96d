// Transforms, sparsity, codebooks and integer sums.
#include "emulation/schemes/groups.h"

namespace apscope {

std::vector<SchemeDefinition> transforms_group() { return {}; }

}  // namespace apscope
