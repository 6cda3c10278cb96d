// The rows of one exchange (emulation/schemes/tensor_scheme.h): wire, exact, then the scheme's own reduction
// or the topologies it crosses with.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "analysis/statistics/result_row.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

struct ExchangeContext {
    bool divide = false;   // the reference is divided by the number of workers
    bool reduces = true;   // false where the trace holds reduced gradients: the wire's row only
    std::span<const Topology> topologies;  // those that the exchange was asked for, exact left out
    int draws = 1;                         // K >= 3: sample what has no closed form
    std::function<Exchange(int draw)> redraw;  // the same exchange from the same state with the words of draw 1..K-1
};

// gradients: as recorded, special values included.
std::vector<ResultRow> tensor_rows(const Scheme& scheme, const Exchange& exchange, std::span<const std::span<const float>> gradients,
                                   const ExchangeContext& context);

// The same rows, empty but for their names and a note that says what the trace lacks.
std::vector<ResultRow> unmeasurable_rows(const Scheme& scheme, std::size_t elements, int workers, const std::string& missing,
                                         const ExchangeContext& context);

}  // namespace apscope::detail
