#include "core/parse.h"

#include <cmath>

namespace apscope::detail {

namespace {

std::string shown(double number) {
    char text[32];
    return {text,
            std::to_chars(text, text + sizeof text, number, std::chars_format::general, 6).ptr};
}

}  // namespace

std::string shortest(double number) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

std::string word_or(std::string_view word) {
    return word.empty() ? "" : std::string(word) + " or ";
}

long parse_integer(std::string_view key, std::string_view text, long min, long max,
                   std::string_view word) {
    return parse_value<long>(
        key, text, [&](long number) { return number >= min && number <= max; },
        word_or(word) + "an integer from " + std::to_string(min) + " to " + std::to_string(max));
}

double parse_real(std::string_view key, std::string_view text, double min, double max) {
    return parse_value<double>(
        key, text,
        [&](double number) { return number >= min && number <= max && std::isfinite(number); },
        std::isinf(max) ? "a finite number of at least " + shown(min)
                        : "a number from " + shown(min) + " to " + shown(max));
}

}  // namespace apscope::detail
