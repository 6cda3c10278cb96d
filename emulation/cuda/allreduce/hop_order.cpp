#include "emulation/cuda/allreduce/hop_order.h"

#include <algorithm>
#include <utility>

namespace apscope::detail {

HopOrder hop_order(const ReductionProgram& program, int workers) {
    HopOrder made;
    // The hop that computed each row.
    std::vector<std::size_t> made_by(static_cast<std::size_t>(workers), HopOrder::none);
    for (const Hop& hop : program.hops) {
        const auto operand = [&](int row) -> HopOrder::Operand {
            const std::size_t maker = made_by[static_cast<std::size_t>(row)];
            return {row, maker, maker == HopOrder::none ? -1 : made.places[maker].depth};
        };
        HopOrder::Place p{operand(hop.target), operand(hop.source), false, 1};
        if (p.second.depth > p.first.depth) {
            std::swap(p.first, p.second);
            p.swapped = true;
        }
        p.depth = std::max({1, p.first.depth, p.second.depth + 1});
        made_by[static_cast<std::size_t>(hop.target)] = made.places.size();
        made.places.push_back(p);
    }
    // The order is built backwards: a hop, then the hops of its second operand, then the hops of
    // its first operand.
    std::vector<std::size_t> left{made_by[static_cast<std::size_t>(program.result)]};
    while (!left.empty()) {
        const std::size_t h = left.back();
        left.pop_back();
        if (h == HopOrder::none) continue;
        made.order.push_back(h);
        left.push_back(made.places[h].first.maker);
        left.push_back(made.places[h].second.maker);
    }
    std::reverse(made.order.begin(), made.order.end());
    return made;
}

}  // namespace apscope::detail
