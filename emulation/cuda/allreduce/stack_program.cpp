#include "emulation/cuda/allreduce/stack_program.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace apscope::detail {

namespace {

// An operand of a hop: a worker's value, or the sum that an earlier hop computes.
struct Operand {
    int row;
    std::size_t maker;
    int depth;  // sums on the stack while the operand is computed; -1 for a worker's value
};
struct PlacedHop {
    Operand first, second;  // in the order in which they are computed
    Below below;
};

}  // namespace

StackProgram stack_program(const ReductionProgram& program, int workers) {
    const std::size_t none = program.hops.size();
    // The hop that computed each row.
    std::vector<std::size_t> made_by(static_cast<std::size_t>(workers), none);
    std::vector<PlacedHop> placed;
    std::vector<int> depths;
    for (const Hop& hop : program.hops) {
        const auto operand = [&](int row) -> Operand {
            const std::size_t maker = made_by[static_cast<std::size_t>(row)];
            return {row, maker, maker == none ? -1 : depths[maker]};
        };
        PlacedHop p{operand(hop.target), operand(hop.source), Below::target};
        if (p.second.depth > p.first.depth) {
            std::swap(p.first, p.second);
            p.below = Below::source;
        }
        depths.push_back(std::max({1, p.first.depth, p.second.depth + 1}));
        made_by[static_cast<std::size_t>(hop.target)] = placed.size();
        placed.push_back(p);
    }
    // The order is built backwards: a hop, then the hops of its second operand, then the hops of
    // its first operand.
    std::vector<std::size_t> order, left{made_by[static_cast<std::size_t>(program.result)]};
    while (!left.empty()) {
        const std::size_t h = left.back();
        left.pop_back();
        if (h == none) continue;
        order.push_back(h);
        left.push_back(placed[h].first.maker);
        left.push_back(placed[h].second.maker);
    }
    std::reverse(order.begin(), order.end());

    StackProgram made;
    if (order.empty()) made.instructions.push_back({.worker = program.result});
    for (const std::size_t h : order) {
        const PlacedHop& p = placed[h];
        // If the first operand is a worker's value, the second one is, too.
        if (p.first.maker == none) made.instructions.push_back({.worker = p.first.row});
        made.instructions.push_back({.worker = p.second.maker == none ? p.second.row : -1,
                                     .adds = 1,
                                     .hop = static_cast<std::uint32_t>(h) *
                                            static_cast<std::uint32_t>(program.additions_per_hop),
                                     .below = p.below,
                                     .starts = program.hops[h].starts_accumulator});
        made.depth = std::max(made.depth, depths[h]);
    }
    made.instructions.push_back({});
    return made;
}

}  // namespace apscope::detail
