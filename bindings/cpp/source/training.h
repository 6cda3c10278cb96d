// What the classes of training exchanges share.
#pragma once

#include <utility>
#include <vector>

#include "bindings/cpp/apscope/exchange.h"
#include "emulation/schemes/step_exchange.h"

namespace apscope {

inline std::vector<detail::StepTensor> step_tensors(std::vector<TrainedTensor> tensors) {
    std::vector<detail::StepTensor> own;
    for (TrainedTensor& t : tensors)
        own.push_back({std::move(t.name), std::move(t.role), std::move(t.shape)});
    return own;
}

}  // namespace apscope
