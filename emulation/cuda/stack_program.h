// A reduction's program of hops as one for the stack machine of reduce_step.h. Host only.
#pragma once

#include <vector>

#include "emulation/cuda/reduce_step.h"
#include "emulation/topology.h"

namespace apscope {

// Throws std::invalid_argument if it takes a deeper stack than threads have: more than 2^16 workers.
std::vector<StackInstruction> stack_program(const ReductionProgram& program, int workers);

}  // namespace apscope
