// The rows of one exchange of a scheme (emulation/schemes/exchange_run.h), summed piece by piece.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/statistics/result_row.h"
#include "emulation/schemes/tensor_scheme.h"

namespace apscope::detail {

// What the note of a row begins with whose inputs the trace lacks.
inline constexpr std::string_view not_measurable = "not measurable on this trace: needs ";

struct ExchangeContext {
    bool divide = false;   // the reference is divided by the number of workers
    bool reduces = true;   // false where the trace holds reduced gradients: the wire's row only
    std::span<const Topology> topologies;  // those that the exchange was asked for, exact left out
    int draws = 1;  // K >= 3: sample what has no closed form
    const BatchNoise* noise = nullptr;  // of the gradients, where the rows are to have it
};

// gradients: as recorded, special values included. key: of draw 0, which is the step's own, and of
// draws 1..K-1. The state goes on by one step.
std::vector<ResultRow> tensor_rows(const TensorScheme& scheme, const TrainingStep& step,
                                   State& state, std::span<const std::span<const float>> gradients,
                                   const ExchangeContext& context,
                                   const std::function<PhiloxKey(int draw)>& key);

// The same rows, empty but for their names and a note that says what the trace lacks.
std::vector<ResultRow> unmeasurable_rows(const TensorScheme& scheme, std::size_t elements,
                                         int workers, const std::string& missing,
                                         const ExchangeContext& context);

}  // namespace apscope::detail
