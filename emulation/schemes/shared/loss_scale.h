// Common parts of schemes with one loss scale for all tensors: the overflow test of a step, and the
// state machine of torch.amp.GradScaler, whose scale may be held above a scheduled minimum.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/rounding.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

// Whether a worker's encoded value overflows with scale S, or was not finite before. Rounding is
// monotone, so amax decides; stochastic rounding counts as overflowing if it could.
class OverflowTest {
public:
    explicit OverflowTest(const FloatGrid& grid)
        : grid_(grid), cast_(make_cast<double>(grid.format, grid.projection)) {}
    bool operator()(const SelectionInput& input, std::size_t step, double scale) const;

private:
    FloatGrid grid_;
    Cast<double> cast_;
};

// From the schedule's steps on: the minimum of S. Before the first there is no minimum.
using MinimumSchedule = std::map<std::int64_t, double>;

std::vector<SchemeKey> grad_scaler_keys();

// That state machine on a float grid. The scale in force at a step is the one before its update.
SchemeParts grad_scaler(const SchemeArguments& arguments, MinimumSchedule minimum = {});

// The key `init`: a positive, normal fp32 number. torch's and DeepSpeed's 2^16 is the first power
// of two beyond fp16's largest value: amax up to 1/2 does not overflow. By default every format
// starts there with its own.
SchemeKey initial_loss_scale_key();
double initial_loss_scale(const SchemeArguments& arguments);

}  // namespace apscope::detail
