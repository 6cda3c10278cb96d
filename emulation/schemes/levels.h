// A hierarchy of two reductions, composed of exchanges of one scheme.
//
//      inside      every group of G consecutive workers (the last group may be smaller) runs its
//                  own exchange of the scheme, in the format of this level
//      over        another exchange of the scheme, in the format of this level, has one worker
//                  per group, whose row is the group's sum, rounded to fp32. With only one
//                  group, there is no such exchange.
//
// Each level therefore chooses its scales from its own rows. A level that adds codes has one scale
// for all members of a group; a scheme of two phases (two_phase.h) has one scale per row and per
// shard. Random words: group g uses level_key(key, g), the exchange of the K groups' sums
// level_key(key, K).
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
