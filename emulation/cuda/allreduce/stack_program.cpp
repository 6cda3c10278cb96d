#include "emulation/cuda/allreduce/stack_program.h"

#include <algorithm>

#include "emulation/cuda/allreduce/hop_order.h"

namespace apscope::detail {

StackProgram stack_program(const ReductionProgram& program, int workers) {
    const HopOrder hops = hop_order(program, workers);
    StackProgram made;
    if (hops.order.empty()) made.instructions.push_back({.worker = program.result});
    for (const std::size_t h : hops.order) {
        const HopOrder::Place& p = hops.places[h];
        const bool reads = p.second.maker == HopOrder::none;
        // If the first operand is a worker's value, the second one is, too.
        if (p.first.maker == HopOrder::none) made.instructions.push_back({.worker = p.first.row});
        made.instructions.push_back({.worker = reads ? p.second.row : -1,
                                     .adds = 1,
                                     .hop = static_cast<std::uint32_t>(h) *
                                            static_cast<std::uint32_t>(program.additions_per_hop),
                                     .below = p.swapped ? Below::source : Below::target,
                                     .starts = program.hops[h].starts_accumulator});
        made.depth = std::max(made.depth, p.depth);
    }
    made.instructions.push_back({});
    return made;
}

}  // namespace apscope::detail
