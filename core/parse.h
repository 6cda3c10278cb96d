// Parses numbers in names, specs and their keys. The spelling is that of std::from_chars: no
// blanks, no plus sign, whatever the locale.
#pragma once

#include <charconv>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/limits.h"

namespace apscope::detail {

// Reads a number from the front of a text; none, and nothing is read, if there is none or the type
// cannot represent it.
template <class Number>
std::optional<Number> take_number(std::string_view& text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

// Reads the whole text as a number.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
    const std::optional<Number> number = take_number<Number>(text);
    return text.empty() ? number : std::nullopt;
}

// The value of a key. Throws std::invalid_argument, "KEY=TEXT must be WANTED", unless it is a
// number that accept() returns true for.
template <class Number, class Accept>
Number parse_value(std::string_view key, std::string_view text, const Accept& accept,
                   const std::string& wanted) {
    const std::optional<Number> number = parse_number<Number>(text);
    if (number && accept(*number)) return *number;
    throw std::invalid_argument(std::string(key) + "=" + limits::clipped(text) + " must be " +
                                wanted);
}
// For a key that also takes a word: "auto or ".
std::string word_or(std::string_view word);
// An integer from min to max, and a finite number from min to max, inclusive.
long parse_integer(std::string_view key, std::string_view text, long min, long max,
                   std::string_view word = {});
double parse_real(std::string_view key, std::string_view text, double min,
                  double max = std::numeric_limits<double>::infinity());

}  // namespace apscope::detail
