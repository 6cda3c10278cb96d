// Escapes texts from files for error messages of one line: names and keys may contain line breaks
// and terminal controls, and paths may contain any bytes.
#pragma once

#include <string>
#include <string_view>

namespace apscope::detail {

// The number of bytes of the UTF-8 character beyond ASCII at the beginning of `text`; 0 if invalid.
inline std::size_t utf8_length(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    const std::size_t length = lead >= 0xF0 && lead < 0xF5   ? 4
                               : lead >= 0xE0 && lead < 0xF0 ? 3
                               : lead >= 0xC2 && lead < 0xE0 ? 2
                                                             : 0;
    if (length == 0 || text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
    }
    const auto second = static_cast<unsigned char>(text[1]);
    const bool shorter = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    const bool outside =
        (lead == 0xED && second >= 0xA0) ||
        (lead == 0xF4 && second >= 0x90);  // half of a surrogate pair, or above U+10FFFF
    return shorter || outside ? 0 : length;
}

// Writes control characters, and bytes that are not UTF-8, as \n, \t or \x1B.
inline std::string one_line(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string line;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const auto byte = static_cast<unsigned char>(c);
        const std::size_t length = byte < 0x80 ? 0 : utf8_length(text.substr(i));
        if (length > 0) {
            line += text.substr(i, length);
            i += length - 1;
        } else if (byte >= 0x20 && byte < 0x7F) line += c;
        else if (c == '\n') line += "\\n";
        else if (c == '\t') line += "\\t";
        else line += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
    return line;
}

}  // namespace apscope::detail
