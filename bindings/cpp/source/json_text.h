// JSON values, written as Python's json.dumps writes them, so that the C++ library and the Python
// package write equal files, byte for byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace apscope {

class Json {
public:
    using List = std::vector<Json>;
    using Object = std::vector<std::pair<std::string, Json>>;  // written in this order

    Json() = default;  // null
    Json(bool value) : value_(value) {}
    // NaN and infinities are written as the strings "NaN", "Infinity" and "-Infinity", as in a
    // trace's manifest.
    Json(double value) : value_(value) {}
    Json(std::string value) : value_(std::move(value)) {}
    Json(const char* value) : value_(std::string(value)) {}
    Json(List value) : value_(std::move(value)) {}
    Json(Object value) : value_(std::move(value)) {}
    template <class Integer>
        requires std::is_integral_v<Integer>
    Json(Integer value) {
        if constexpr (std::is_signed_v<Integer>) value_ = static_cast<std::int64_t>(value);
        else value_ = static_cast<std::uint64_t>(value);
    }
    template <class Value>
    static Json list(const std::vector<Value>& values) {
        return List(values.begin(), values.end());
    }

    // The text on one line, with the separators ", " and ": ", as json.dumps(value).
    std::string line() const;
    // The text without blanks, as json.dumps(value, separators=(",", ":")).
    std::string compact() const;
    // The text on several lines, as json.dumps(value, indent=1).
    std::string indented() const;

private:
    struct Style;
    void write(const Style& style, std::size_t depth, std::string& out) const;

    std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, List,
                 Object>
        value_;
};

// Throws std::invalid_argument if a text is not UTF-8; the message begins with `what`.
void check_utf8(std::string_view text, std::string_view what);

}  // namespace apscope
