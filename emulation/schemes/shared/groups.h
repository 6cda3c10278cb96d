// The registry's groups: each lists the definitions of its schemes, in the file named after it.
#pragma once

#include <string_view>
#include <vector>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// The same definitions with their family: the one given, `mixed` for policies, none for what holds a scheme.
std::vector<SchemeDefinition> in_family(std::string_view family, std::vector<SchemeDefinition> definitions);

std::vector<SchemeDefinition> baseline_group();
std::vector<SchemeDefinition> aps_group();
std::vector<SchemeDefinition> loss_scaling_group();
std::vector<SchemeDefinition> recipes_group();
std::vector<SchemeDefinition> stochastic_grids_group();
std::vector<SchemeDefinition> one_bit_group();
std::vector<SchemeDefinition> transforms_group();

}  // namespace apscope::detail
