// Texts of others in an error's sentence: names and keys may hold line breaks and what a terminal obeys.
#pragma once

#include <string>
#include <string_view>

namespace apscope::detail {

// Control characters as \n, \t or \x1B.
inline std::string one_line(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string line;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte != 0x7F) line += c;
        else if (c == '\n') line += "\\n";
        else if (c == '\t') line += "\\t";
        else line += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
    return line;
}

}  // namespace apscope::detail
