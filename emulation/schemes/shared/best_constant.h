// The search for the constant scale with the least error: docs/definitions.md, section 8.
#pragma once

#include "emulation/schemes/choice.h"
#include "emulation/schemes/float_encoder.h"

namespace apscope::detail {

enum class ByFigure { error_over_noise, step_nmse };

// Chooses the power of two with the least figure over all steps and tensors of the scheme. The
// search starts a few binades below the largest scale that never saturates, and goes up. Throws
// std::invalid_argument without a Lookahead.
Choose choose_best_constant(const FloatEncoder& encoder, ByFigure by);

}  // namespace apscope::detail
