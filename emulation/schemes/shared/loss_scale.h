// The common parts of schemes with one dynamic loss scale S for all tensors: found_inf of a step,
// and the state machine of torch.amp.GradScaler, with an optional minimum of the scale that depends
// on the step.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "emulation/schemes/definition.h"

namespace apscope::detail {

// Computes found_inf of a step with scale S: true if an element of a tensor is not finite in a
// worker's gradient or after the reduction.
class FoundInf {
public:
    explicit FoundInf(const FloatEncoder& encoder) : encoder_(encoder) {}
    bool operator()(const SelectionInput& input, std::size_t step, double scale) const;

private:
    // False if a bound shows that no message and no sum overflows; otherwise sums must be computed
    // in advance.
    bool could_overflow(const AgreedStatistics& s, double scale, int workers,
                        const Topology& topology) const;

    FloatEncoder encoder_;
};

// Maps step numbers to the minimum of S from that step on. There is no minimum before the first of
// these steps.
using MinimumSchedule = std::map<std::int64_t, double>;

// The bounds of S; without them, S is a positive fp32 number or 0.
struct LossScaleBounds {
    double min = 0.0, max = std::numeric_limits<float>::max();
};

// The keys init, growth, backoff and growth_interval.
std::vector<SchemeKey> grad_scaler_keys();

// A float scheme without choose(). The caller sets choose(), which depends on the result of a
// step's reduction.
SchemeParts dynamic_loss_scheme(const SchemeArguments& arguments);

// The state machine of GradScaler on a float grid. The scale of a step is S before
// the step's update.
SchemeParts grad_scaler(const SchemeArguments& arguments, MinimumSchedule minimum = {},
                        const LossScaleBounds& bounds = {});

// The key `init`: a positive, normal fp32 number. The default is the first power of two above the
// format's largest value, between 1 and 2^16, so that amax up to 1/2 does not overflow. For fp16
// this is 2^16, as in torch and DeepSpeed.
SchemeKey initial_loss_scale_key();
double initial_loss_scale(const SchemeArguments& arguments);

}  // namespace apscope::detail
