// A policy: which scheme serves which tensor at which step (hybrid precision). Conditions:
//
//      first, last      the tensors of the first or the last layer
//      role:R           the tensor's role, as the trace says
//      name:REGEX       its name, in part
//      steps:A:B        recorded step numbers, half open, either end may be missing
//      else             always; the last branch must be this one
//
// Conditions joined by & must all hold. A layer is what stands before the last dot of a name; the
// first layer is that of the first tensor, the last that of the last tensor whose role is head, or
// else of the last tensor that is neither norm nor bias.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// A tensor of the trace, as policies see it.
struct PolicyTensor {
    std::string name, role;
    bool first = false, last = false;  // of the first, the last layer
};
std::vector<PolicyTensor> policy_tensors(std::span<const std::string> names, std::span<const std::string> roles);

// "CONDITION=SPEC;...;else=SPEC", in the order given. Throws std::invalid_argument.
std::vector<PolicyBranch> parse_policy(std::string_view body);

// The index of the branch that serves a tensor at a step.
std::size_t branch_for(const std::vector<PolicyBranch>& policy, const PolicyTensor& tensor, std::int64_t step);

}  // namespace apscope::detail
