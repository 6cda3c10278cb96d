// The search for the constant scale that errs least: docs/definitions.md, section 8.
#pragma once

#include "emulation/schemes/choice.h"
#include "emulation/schemes/float_encoder.h"

namespace apscope::detail {

enum class ByFigure { error_over_noise, step_nmse };

// Chooses the power of two with the least figure over all steps and tensors of the scheme, from
// `below` binades under the largest that never saturates upwards. Throws std::invalid_argument
// without a look ahead.
Choose choose_best_constant(const FloatEncoder& encoder, ByFigure by);

}  // namespace apscope::detail
