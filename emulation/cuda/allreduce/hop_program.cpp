#include "emulation/cuda/allreduce/hop_program.h"

#include <algorithm>
#include <utility>

namespace apscope::detail {

namespace {

struct NumberedHop {
    Hop hop;
    std::uint32_t number;  // the number of the hop's first addition
};

// Orders the hops so that, of the two sums that a hop adds, the sum whose computation stores more
// partial sums is computed first.
std::vector<std::size_t> deeper_first(const ReductionProgram& program, int workers) {
    const std::size_t none = program.hops.size();
    // The hop that computed each row.
    std::vector<std::size_t> made_by(static_cast<std::size_t>(workers), none);
    // The hops that compute the two operands of a hop, the deeper one first.
    std::vector<std::pair<std::size_t, std::size_t>> operands;
    std::vector<int> depths;
    for (std::size_t h = 0; h < none; ++h) {
        std::size_t first = made_by[static_cast<std::size_t>(program.hops[h].target)],
                    second = made_by[static_cast<std::size_t>(program.hops[h].source)];
        // An operand that is a worker's value has depth -1: it needs no stored sum.
        const auto depth = [&](std::size_t maker) { return maker == none ? -1 : depths[maker]; };
        if (depth(second) > depth(first)) std::swap(first, second);
        depths.push_back(
            std::max(0, depth(first) + (second != none && depth(first) == depth(second))));
        operands.emplace_back(first, second);
        made_by[static_cast<std::size_t>(program.hops[h].target)] = h;
    }
    // The order is built backwards: a hop, then the hops of its second operand, then the hops of
    // its first operand.
    std::vector<std::size_t> order, left{made_by[static_cast<std::size_t>(program.result)]};
    while (!left.empty()) {
        const std::size_t h = left.back();
        left.pop_back();
        if (h == none) continue;
        order.push_back(h);
        left.push_back(operands[h].first);
        left.push_back(operands[h].second);
    }
    std::reverse(order.begin(), order.end());
    return order;
}

}  // namespace

HopProgram hop_program(const ReductionProgram& program, int workers, HopOrder order) {
    std::vector<NumberedHop> hops;
    for (const Hop& hop : program.hops)
        hops.push_back({hop, static_cast<std::uint32_t>(hops.size()) *
                                 static_cast<std::uint32_t>(program.additions_per_hop)});
    if (order == HopOrder::deeper_first) {
        std::vector<NumberedHop> moved;
        for (const std::size_t h : deeper_first(program, workers)) moved.push_back(hops[h]);
        hops.swap(moved);
    }

    // next_use[h] is the hop that uses the result of hop h; the end of the program counts as one
    // more hop.
    const std::size_t none = hops.size();
    std::vector<std::size_t> next_use(none, none + 1),
        row_made_by(static_cast<std::size_t>(workers), none);
    const auto use = [&](int row, std::size_t by) {
        const std::size_t maker = row_made_by[static_cast<std::size_t>(row)];
        if (maker != none) next_use[maker] = by;
    };
    for (std::size_t h = 0; h < none; ++h) {
        use(hops[h].hop.target, h);
        use(hops[h].hop.source, h);
        row_made_by[static_cast<std::size_t>(hops[h].hop.target)] = h;
    }
    use(program.result, none);

    HopProgram made;
    std::vector<std::int32_t> row_operand, free_slots;
    for (std::int32_t w = 0; w < workers; ++w) row_operand.push_back(w);
    for (std::size_t h = 0; h < none; ++h) {
        const Hop& hop = hops[h].hop;
        const std::int32_t target = row_operand[static_cast<std::size_t>(hop.target)],
                           source = row_operand[static_cast<std::size_t>(hop.source)];
        for (const std::int32_t operand : {target, source}) {
            if (operand < operand_before) free_slots.push_back(-2 - operand);
        }
        HopInstruction instruction{target, source, -1, hops[h].number, hop.starts_accumulator};
        if (next_use[h] > h + 1 && next_use[h] <= none) {
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

HopProgram hop_program(const Topology& topology, int workers) {
    // A ring's last chunk begins with worker 0.
    const int chunk = topology.kind == Topology::Kind::ring ? workers - 1 : 0;
    return hop_program(reduction_program(topology, workers, chunk), workers, HopOrder::as_they_are);
}

}  // namespace apscope::detail
