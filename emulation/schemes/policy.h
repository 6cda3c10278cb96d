// A policy assigns a scheme to each tensor at each step (hybrid precision). Conditions:
//
//      first, last      the tensor is in the first or the last layer
//      role:R           the tensor has the role R in the trace
//      name:REGEX       the expression matches a part of the tensor's name
//      steps:A:B        A <= recorded step number < B; A or B may be missing
//      else             holds always; the last branch must have this condition
//
// Conditions joined by & must all hold. A layer is the part of a tensor's name before the last dot.
// The first layer is the layer of the first tensor. The last layer is the layer of the last tensor
// with role head or, if there is none, of the last tensor that is neither norm nor bias.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace apscope::detail {

struct Scheme;

// The properties of a tensor that policies use.
struct PolicyTensor {
    std::string name, role;
    bool first = false, last = false;  // true if the tensor is in the first or the last layer
};
std::vector<PolicyTensor> policy_tensors(std::span<const std::string> names,
                                         std::span<const std::string> roles);

// One or more of the conditions above, joined by &.
class Condition {
public:
    // Throws std::invalid_argument for an invalid condition.
    explicit Condition(std::string_view text);
    const std::string& text() const { return text_; }
    // True if all parts of the condition other than steps:A:B hold.
    bool holds(const PolicyTensor& tensor) const;
    // True if the step is in the range of steps:A:B; always true without this part.
    bool names(std::int64_t step) const { return step >= begin_ && step < end_; }

private:
    std::string text_;
    std::vector<std::function<bool(const PolicyTensor&)>> parts_;
    std::int64_t begin_ = 0, end_ = std::numeric_limits<std::int64_t>::max();
};

struct PolicyBranch {
    Condition condition;
    std::shared_ptr<const Scheme> scheme;
};

struct Policy {
    std::vector<PolicyBranch> branches;

    std::string text() const;  // CONDITION=SPEC;...;else=SPEC
    // For each step, the index of the first branch whose condition holds.
    std::vector<std::size_t> branches_for(const PolicyTensor& tensor,
                                          std::span<const std::int64_t> steps) const;
};

// Parses "CONDITION=SPEC;...;else=SPEC"; `parse` makes the schemes. Throws std::invalid_argument
// for an invalid text, such as one without a last branch `else`.
Policy parse_policy(std::string_view body, const std::function<Scheme(std::string_view)>& parse);

}  // namespace apscope::detail
