#include "bindings/cpp/source/json_text.h"

#include <charconv>
#include <cmath>
#include <cstddef>

#include "core/error.h"
#include "core/limits.h"

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

// Removes the first code point from a text that is not empty, and returns it. Returns -1, and
// removes nothing, if the text does not begin with UTF-8.
std::int64_t take_point(std::string_view& text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned first = byte(0);
    const std::size_t length = first < 0x80    ? 1
                               : first < 0xc2  ? 0
                               : first < 0xe0  ? 2
                               : first < 0xf0  ? 3
                               : first <= 0xf4 ? 4
                                               : 0;
    if (length == 0 || text.size() < length) return -1;
    std::int64_t point = length == 1 ? first : first & (0x7fu >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return -1;
        point = point << 6 | (byte(i) & 0x3f);
    }
    constexpr std::int64_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return -1;
    text.remove_prefix(length);
    return point;
}

void escape(std::int64_t unit, std::string& out) {
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[unit >> shift & 0xf];
}

void quote(std::string_view text, std::string& out) {
    out += '"';
    while (!text.empty()) {
        const std::int64_t point = take_point(text);
        if (point < 0) {  // not UTF-8: the replacement character
            text.remove_prefix(1);
            escape(0xfffd, out);
            continue;
        }
        constexpr std::string_view special = "\"\\\n\r\t\f\b", letters = "\"\\nrtfb";
        const std::size_t at =
            point < 0x80 ? special.find(static_cast<char>(point)) : std::string_view::npos;
        if (at != std::string_view::npos) {
            out += '\\';
            out += letters[at];
        } else if (point >= ' ' && point <= '~') {
            out += static_cast<char>(point);
        } else if (point < 0x10000) {
            escape(point, out);
        } else {  // a pair of surrogates
            escape(0xd800 + ((point - 0x10000) >> 10), out);
            escape(0xdc00 + ((point - 0x10000) & 0x3ff), out);
        }
    }
    out += '"';
}

}  // namespace

struct Json::Style {
    std::string_view comma, colon;
    bool breaks = false;

    void new_line(std::size_t depth, std::string& out) const {
        if (!breaks) return;
        out += '\n';
        out.append(depth, ' ');
    }
};

void Json::write(const Style& style, std::size_t depth, std::string& out) const {
    // Writes the items of a list or an object between brackets.
    const auto items = [&](const auto& all, char open, char close, const auto& one) {
        out += open;
        bool first = true;
        for (const auto& item : all) {
            if (!first) out += style.comma;
            first = false;
            style.new_line(depth + 1, out);
            one(item);
        }
        if (!all.empty()) style.new_line(depth, out);
        out += close;
    };
    if (std::holds_alternative<std::monostate>(value_)) out += "null";
    else if (const auto* b = std::get_if<bool>(&value_)) out += *b ? "true" : "false";
    else if (const auto* i = std::get_if<std::int64_t>(&value_)) out += std::to_string(*i);
    else if (const auto* u = std::get_if<std::uint64_t>(&value_)) out += std::to_string(*u);
    else if (const auto* d = std::get_if<double>(&value_)) out += number(*d);
    else if (const auto* s = std::get_if<std::string>(&value_)) quote(*s, out);
    else if (const auto* list = std::get_if<List>(&value_))
        items(*list, '[', ']', [&](const Json& item) { item.write(style, depth + 1, out); });
    else
        items(std::get<Object>(value_), '{', '}', [&](const auto& item) {
            quote(item.first, out);
            out += style.colon;
            item.second.write(style, depth + 1, out);
        });
}

std::string Json::line() const {
    std::string out;
    write({", ", ": "}, 0, out);
    return out;
}
std::string Json::compact() const {
    std::string out;
    write({",", ":"}, 0, out);
    return out;
}
std::string Json::indented() const {
    std::string out;
    write({",", ": ", true}, 0, out);
    return out;
}

void check_utf8(std::string_view text, std::string_view what) {
    std::string_view rest = text;
    while (!rest.empty()) {
        if (take_point(rest) < 0)
            throw error(std::string(what) + " '" + detail::limits::clipped(text) +
                        "' is not UTF-8; give a text in UTF-8");
    }
}

}  // namespace apscope
