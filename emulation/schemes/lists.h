// The specs of the lists `main` and `all`, which are accepted wherever specs are.
#pragma once

#include <string>
#include <vector>

namespace apscope::detail {

// The schemes that show which formats and scales these gradients allow. Baselines without a scale;
// then for every format: no scaling; one scale for all steps, the largest that never saturates;
// APS, by its own rule; stochastic rounding with partial sums rounded in the ring, and with
// gathered codes, at fp32's volume. For hardware's two formats and e3m4, by the rule without a
// spare binade, one scale for all steps, one per step and one per layer (APS): three rungs of the
// ladder that differ in nothing else; in e3m4, where it matters, also the best constant, which may
// clip. Loss scales as in training systems; QSGD with 4 and 8 bits.
std::vector<std::string> main_schemes();

// The main schemes, then every other scheme of the registry: with its default keys if the list does
// not name it, with e4m3 if it takes a format, and with aps:e4m3 as an inner scheme.
std::vector<std::string> all_schemes();

}  // namespace apscope::detail
