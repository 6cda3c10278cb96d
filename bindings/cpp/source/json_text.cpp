#include "bindings/cpp/source/json_text.h"

#include <charconv>
#include <cmath>
#include <cstddef>

#include "bindings/cpp/source/sentences.h"
#include "core/error.h"

namespace apscope {
namespace {

// The shortest digits that read back as the number, with a point or an exponent, as repr(float).
std::string number(double x) {
    if (std::isnan(x)) return "\"NaN\"";
    if (std::isinf(x)) return x > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    char text[32];
    const double size = std::abs(x);
    const bool fixed = x == 0 || (size >= 1e-4 && size < 1e16);
    std::string out(text,
                    std::to_chars(text, text + sizeof text, x,
                                  fixed ? std::chars_format::fixed : std::chars_format::scientific)
                        .ptr);
    if (fixed && out.find('.') == std::string::npos) out += ".0";
    return out;
}

// Text, an integer, true, false or null, in ASCII.
std::string simple(const Json& value) {
    return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Appends a value. `breaks` puts every item of a list or an object on its own line, and `depth`
// counts the lists and objects around the value.
void append(const Json& value, bool breaks, std::size_t depth, std::string& out) {
    if (value.is_number_float()) {
        out += number(value);
        return;
    }
    if (!value.is_structured()) {
        out += simple(value);
        return;
    }
    const auto new_line = [&](std::size_t blanks) {
        if (breaks) out += '\n' + std::string(blanks, ' ');
    };
    out += value.is_array() ? '[' : '{';
    bool first = true;
    for (const auto& [key, item] : value.items()) {
        if (!first) out += breaks ? "," : ", ";
        first = false;
        new_line(depth + 1);
        if (value.is_object()) out += simple(key) + ": ";
        append(item, breaks, depth + 1, out);
    }
    if (!value.empty()) new_line(depth);
    out += value.is_array() ? ']' : '}';
}

}  // namespace

std::string json_line(const Json& value) {
    std::string out;
    append(value, false, 0, out);
    return out;
}

std::string indented(const Json& value) {
    std::string out;
    append(value, true, 0, out);
    return out;
}

void check_utf8(std::string_view text, std::string_view what) {
    try {
        Json(text).dump();
    } catch (const Json::type_error&) {
        throw error(std::string(what) + " " + in_quotes(text) +
                    " is not UTF-8; give a text in UTF-8");
    }
}

}  // namespace apscope
