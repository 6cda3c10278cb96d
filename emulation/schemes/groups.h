// The registry's groups: each lists the definitions of its schemes, in the file named after it.
#pragma once

#include <vector>

#include "emulation/scheme.h"

namespace apscope {

std::vector<SchemeDefinition> baseline_group();
std::vector<SchemeDefinition> aps_group();
std::vector<SchemeDefinition> loss_scaling_group();
std::vector<SchemeDefinition> recipes_group();
std::vector<SchemeDefinition> stochastic_grids_group();
std::vector<SchemeDefinition> one_bit_group();
std::vector<SchemeDefinition> transforms_group();

}  // namespace apscope
