// The hops of a reduction (emulation/allreduce/topology.h) as instructions for a stack, which a GPU
// thread runs once for a group of elements. The thread has a current sum, and a stack of sums below
// it. An instruction reads a worker's value, adds, or both:
//
//      read    push the current sum; the worker's value becomes the current sum
//      add     pop a sum; the current sum = round(target + source), which are the two
//
//      tree of 4:   read 0   read 1, add   read 2   read 3, add   add
//      stack        -        -             0+1      0+1           -
//
// The hops run depth first (hop_order.h), so W workers need at most log2 W sums on the stack, and a
// chain of hops needs one. Every addition has the hop number, which selects the random stream, and
// the order of operands that it has in emulation/allreduce/reduce.h, so a sum has the same bits as
// there.
#pragma once

#include <cstdint>
#include <vector>

#include "emulation/allreduce/topology.h"

namespace apscope::detail {

enum class Below : std::int16_t { target, source };  // the operand that is popped

struct alignas(16) StackInstruction {
    std::int32_t worker = -1;  // the worker whose value is read; -1: none
    std::int32_t adds = 0;     // 1: the instruction adds
    std::uint32_t hop = 0;     // the number of the hop's first addition
    Below below = Below::target;
    std::int16_t starts = 0;  // 1: the target's compensation starts at 0 (Kahan)
};

struct StackProgram {
    std::vector<StackInstruction> instructions;  // the last one does nothing
    int depth = 1;                               // sums on the stack at a time
};

// Makes the instructions for a program. Host only.
StackProgram stack_program(const ReductionProgram& program, int workers);

}  // namespace apscope::detail
