// A reduction's program of hops as one for the stack machine of reduce_step.h. Host only.
#pragma once

#include <vector>

#include "emulation/allreduce/topology.h"
#include "emulation/cuda/allreduce/reduce_step.h"

namespace apscope::detail {

// Throws std::invalid_argument if it takes a deeper stack than threads have: more than 2^16 workers.
std::vector<StackInstruction> stack_program(const ReductionProgram& program, int workers);

}  // namespace apscope::detail
