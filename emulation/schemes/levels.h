// A hierarchy of two reductions, as a composition of a scheme's exchanges.
//
//      inside      every group of G consecutive workers (the last may be smaller) is an exchange
//                  of its own, of the scheme in the level's format
//      over        the groups' sums, narrowed to fp32, are the rows of another exchange, of the
//                  scheme in that level's format: as many workers as groups. None of one group.
//
// So a scale that comes from a tensor is taken from a level's own rows: where it adds codes, the
// group's members agree on it; in two phases each row and each shard has its own. The words of
// group g are drawn with the key of the level's stage and g, those of the K groups' sums with K.
#pragma once

#include <memory>
#include <string>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// A sentence with the reason why the levels cannot reduce a scheme; empty if they can. Throws
// std::invalid_argument for a policy.
std::string refusal_of_levels(const Topology& topology, const Scheme& scheme);

// The scheme with the reduction of a topology of Kind::levels. Throws std::invalid_argument if
// refusal_of_levels() has a reason.
SchemeParts in_levels(const Scheme& scheme, const Topology& topology);

}  // namespace apscope::detail
