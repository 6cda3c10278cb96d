// Splits specs at a separator, except inside parentheses.
#pragma once

#include <string_view>
#include <vector>

namespace apscope::detail {

inline std::vector<std::string_view> split_outside(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '(') ++depth;
        else if (text[i] == ')') --depth;
        else if (text[i] == separator && depth <= 0) {
            parts.push_back(text.substr(begin, i - begin));
            begin = i + 1;
        }
    }
    parts.push_back(text.substr(begin));
    return parts;
}

}  // namespace apscope::detail
