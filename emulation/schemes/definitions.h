// One function a scheme, each in the file of its name; scheme.cpp lists them.
#pragma once

#include "emulation/scheme.h"

namespace apscope {

SchemeDefinition none_definition();
SchemeDefinition loss_scaling_definition();
SchemeDefinition dynamic_loss_scaling_definition();
SchemeDefinition aps_definition();
SchemeDefinition stochastic_definition();
SchemeDefinition qsgd_definition();

}  // namespace apscope
