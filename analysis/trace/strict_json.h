// JSON as this project reads it: a duplicate key is an error, and so are anything but one value and
// values nested too deep to print.
//
// Manifests and safetensors headers come from other programs; where a key appears twice two
// readers would disagree about what the file says.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace apscope::detail {

// Throws std::invalid_argument with one sentence that begins with `where`.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where);

}  // namespace apscope::detail
