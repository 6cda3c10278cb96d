// Strict JSON: refuses a duplicate key, text with other than one value, and values nested too
// deeply to print.
//
// Manifests and safetensors headers come from other programs; if a key occurred twice, two readers
// could disagree about the content.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace apscope::detail {

// Throws std::invalid_argument with one sentence that begins with `where`.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where);

}  // namespace apscope::detail
