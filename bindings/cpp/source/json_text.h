// JSON as Python's json.dumps writes it, so that the C++ library and the Python package write equal
// files, byte for byte. The values are nlohmann-json's; its own dump() writes no blank after a
// comma, and its floats differ from Python's: 1e+15 for 1000000000000000.0, and a digit too many in
// about one of a thousand.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace apscope {

using Json = nlohmann::ordered_json;

// The text on one line, as json.dumps(value). NaN and infinities are the strings "NaN", "Infinity"
// and "-Infinity", as in a trace's manifest; bytes that are not UTF-8 are replaced.
std::string json_line(const Json& value);
// The text on several lines, as json.dumps(value, indent=1).
std::string indented(const Json& value);

// Throws std::invalid_argument if a text is not UTF-8; the message begins with `what`.
void check_utf8(std::string_view text, std::string_view what);

}  // namespace apscope
