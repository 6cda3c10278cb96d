#include "emulation/cuda/allreduce/hop_program.h"

#include <numeric>

#include "emulation/cuda/allreduce/hop_order.h"

namespace apscope::detail {

HopProgram hop_program(const Topology& topology, int workers, bool in_order) {
    // A ring's last chunk begins with worker 0.
    const int chunk = topology.kind == Topology::Kind::ring ? workers - 1 : 0;
    const ReductionProgram program = reduction_program(topology, workers, chunk);
    const std::vector<Hop>& hops = program.hops;
    std::vector<std::size_t> order(hops.size());
    if (in_order) std::iota(order.begin(), order.end(), std::size_t{0});
    else order = hop_order(program, workers).order;

    // The places in the order: next_use[k] is that of the hop that uses the result of hop k; the
    // end of the program counts as one more hop.
    const std::size_t none = order.size();
    std::vector<std::size_t> next_use(none, none + 1),
        row_made_by(static_cast<std::size_t>(workers), none);
    const auto use = [&](int row, std::size_t by) {
        const std::size_t maker = row_made_by[static_cast<std::size_t>(row)];
        if (maker != none) next_use[maker] = by;
    };
    for (std::size_t k = 0; k < none; ++k) {
        const Hop& hop = hops[order[k]];
        use(hop.target, k);
        use(hop.source, k);
        row_made_by[static_cast<std::size_t>(hop.target)] = k;
    }
    use(program.result, none);

    HopProgram made;
    std::vector<std::int32_t> row_operand, free_slots;
    for (std::int32_t w = 0; w < workers; ++w) row_operand.push_back(w);
    for (std::size_t k = 0; k < none; ++k) {
        const Hop& hop = hops[order[k]];
        const std::int32_t target = row_operand[static_cast<std::size_t>(hop.target)],
                           source = row_operand[static_cast<std::size_t>(hop.source)];
        for (const std::int32_t operand : {target, source}) {
            if (operand < operand_before) free_slots.push_back(-2 - operand);
        }
        const std::uint32_t number = static_cast<std::uint32_t>(order[k]) *
                                     static_cast<std::uint32_t>(program.additions_per_hop);
        HopInstruction instruction{target, source, -1, number, hop.starts_accumulator};
        if (next_use[k] > k + 1 && next_use[k] <= none) {
            if (free_slots.empty()) free_slots.push_back(made.slots++);
            instruction.keep = free_slots.back();
            free_slots.pop_back();
        }
        row_operand[static_cast<std::size_t>(hop.target)] =
            instruction.keep >= 0 ? operand_slot(instruction.keep) : operand_before;
        made.instructions.push_back(instruction);
    }
    made.result = row_operand[static_cast<std::size_t>(program.result)];
    return made;
}

}  // namespace apscope::detail
