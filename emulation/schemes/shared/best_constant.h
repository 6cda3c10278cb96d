// The search for the constant scale with the least error: docs/definitions.md, section 8.
#pragma once

#include "emulation/schemes/choice.h"
#include "emulation/schemes/float_encoder.h"

namespace apscope::detail {

// The figure that the search minimizes.
enum class ByFigure { error_over_noise, step_nmse };

// Chooses the power of two with the least figure over all steps and tensors of the scheme. The
// search starts a few powers of two below the largest scale that never saturates, and goes up.
// Throws std::invalid_argument if the input has no Lookahead.
Choose choose_best_constant(const FloatEncoder& encoder, ByFigure by);

}  // namespace apscope::detail
