// The optimizers whose updates are known: docs/definitions.md, section 16.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace apscope::detail {

enum class Optimizer { sgd, adam, lars };
inline constexpr std::array<std::string_view, 3> optimizer_names{"sgd", "adam", "lars"};

// Throws std::invalid_argument for another name.
Optimizer parse_optimizer(std::string_view name);
// parse_optimizer() of an optional name.
std::optional<Optimizer> asked_optimizer(const std::optional<std::string>& name);

// The optimizer in a trace's metadata, such as "AdamW, weight decay 0.1" or "torch.optim.SGD". Its
// name is the part of the first word after the last point, in upper or lower case; AdamW is treated
// like Adam. None for any other optimizer.
std::optional<Optimizer> optimizer_told(std::string_view text);

}  // namespace apscope::detail
