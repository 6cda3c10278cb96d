// The rows of one exchange of a scheme with a block part, block by block
// (emulation/schemes/block_exchange.h): those that tensor_rows() makes of exchange(), without
// anything as long as the tensor.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "analysis/replay/tensor_rows.h"

namespace apscope::detail {

// gradients: as recorded. key: the step's own for draw 0, and those of the draws 1..K-1. The state
// goes on by one step.
std::vector<ResultRow> block_rows(const TensorScheme& scheme, const TrainingStep& step,
                                  State& state, std::span<const std::span<const float>> gradients,
                                  const ExchangeContext& context,
                                  const std::function<PhiloxKey(int draw)>& key);

}  // namespace apscope::detail
