// The order in which a GPU thread runs the hops of a reduction, depth first: of the two sums that a
// hop adds, the sum whose computation keeps more sums is computed first, so that W workers need at
// most log2 W kept sums.
#pragma once

#include <cstddef>
#include <vector>

#include "emulation/allreduce/topology.h"

namespace apscope::detail {

struct HopOrder {
    static constexpr std::size_t none = ~std::size_t{0};
    // An operand of a hop: a worker's value, or the sum that an earlier hop computes.
    struct Operand {
        int row;
        std::size_t maker;  // the hop, or none
        int depth;  // sums that are kept while the operand is computed; -1 for a worker's value
    };
    struct Place {
        Operand first, second;  // in the order in which they are computed
        bool swapped;           // the first is the source
        int depth;
    };
    std::vector<Place> places;       // of the hops
    std::vector<std::size_t> order;  // of the hops that the result needs
};

// Host only.
HopOrder hop_order(const ReductionProgram& program, int workers);

}  // namespace apscope::detail
