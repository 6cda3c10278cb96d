// Parses numbers in names, specs and their keys, and writes them in messages. The syntax is that of
// std::from_chars: no blanks, no plus sign, the same in every locale.
#pragma once

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/limits.h"

namespace apscope::detail {

// Replaces std::from_chars of double, which libc++ has only since version 20; uses the C library.
std::from_chars_result read_real(const char* begin, const char* end, double& number);

// Reads a number from the front of a text. Removes the number from the text. If there is no number,
// or the type cannot represent it, returns nothing and leaves the text unchanged.
template <class Number>
std::optional<Number> take_number(std::string_view& text) {
    Number number{};
    const auto read = [](const char* begin, const char* end, auto& into) {
#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 200000
        if constexpr (std::is_same_v<Number, double>) return read_real(begin, end, into);
        else
#endif
            return std::from_chars(begin, end, into);
    };
    const auto [end, error] = read(text.data(), text.data() + text.size(), number);
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

// Returns the value of a key, read from `text`. Throws std::invalid_argument, "KEY=TEXT must be
// WANTED", unless the text is a number for which accept() returns true.
template <class Number, class Accept>
Number parse_value(std::string_view key, std::string_view text, const Accept& accept,
                   const std::string& wanted) {
    const std::optional<Number> number = parse_number<Number>(text);
    if (number && accept(*number)) return *number;
    throw std::invalid_argument(std::string(key) + "=" + limits::clipped(text) + " must be " +
                                wanted);
}
// The largest number of elements, bytes or steps that a key accepts: 2^40, or 2^30 if long has 32
// bits.
inline constexpr long largest_count = 1L << std::min(40, std::numeric_limits<long>::digits - 1);
// The shortest decimal that reads back as the number.
std::string shortest(double number);
// The word and " or ", for the message about a key that also accepts this word ("auto or "); empty
// if the word is empty.
std::string word_or(std::string_view word);
// Parse an integer and a finite number from min to max, inclusive; both throw std::invalid_argument
// for any other text. The message also names `word`, if it is not empty, as a possible value.
long parse_integer(std::string_view key, std::string_view text, long min, long max,
                   std::string_view word = {});
double parse_real(std::string_view key, std::string_view text, double min,
                  double max = std::numeric_limits<double>::infinity());

}  // namespace apscope::detail
