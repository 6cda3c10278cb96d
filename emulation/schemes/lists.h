// The specs of the lists `main` and `all`, which are accepted wherever specs are.
#pragma once

#include <string>
#include <vector>

namespace apscope::detail {

// The schemes that show which formats and scales these gradients allow: formats without a scale and
// block formats; for e5m2, e4m3fn and e3m4 no scale, one scale for all steps (the largest that
// never saturates) and APS. For e4m3fn and e3m4, with rule=tight, also one scale for all steps, one
// per step and one per layer: three rungs of a ladder that differ in nothing else; and stochastic
// rounding with gathered codes. With rule=tight one scale per layer and one per block for every
// format but e5m2; for e3m4 the best constant, which may clip. Loss scales as in training systems;
// QSGD with 4 and 8 bits.
std::vector<std::string> main_schemes();

// The main schemes, then every other scheme of the registry: with its default keys if the list does
// not name it, with e4m3 if it takes a format, and with aps:e4m3 as an inner scheme.
std::vector<std::string> all_schemes();

}  // namespace apscope::detail
