// The names of formats that are read word by word, as constant expressions: P3109's names and the
// general form of core/named_formats.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

#include "float_format.h"

namespace apscope::detail {

// Returns whether a list of words separated by spaces contains `word`.
constexpr bool lists_word(std::string_view words, std::string_view word) {
    while (!words.empty()) {
        const std::size_t end = std::min(words.find(' '), words.size());
        if (words.substr(0, end) == word) return !word.empty();
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    return false;
}

// Reads words and integers from the front of a name.
struct NameTokens {
    std::string_view rest;

    constexpr bool take(std::string_view word) {
        if (!rest.starts_with(word)) return false;
        rest.remove_prefix(word.size());
        return true;
    }
    // Removes `word` and the integer after it, and returns the integer; without both, removes
    // nothing.
    template <class Integer = int>
    constexpr std::optional<Integer> take_number(std::string_view word) {
        NameTokens ahead = *this;
        if (!ahead.take(word)) return std::nullopt;
        const bool negative = std::is_signed_v<Integer> && ahead.take("-");
        const std::uint64_t largest =
            static_cast<std::uint64_t>(std::numeric_limits<Integer>::max()) + (negative ? 1 : 0);
        const std::size_t before = ahead.rest.size();
        std::uint64_t magnitude = 0;
        while (!ahead.rest.empty() && ahead.rest[0] >= '0' && ahead.rest[0] <= '9') {
            const auto digit = static_cast<std::uint64_t>(ahead.rest[0] - '0');
            if (magnitude > (largest - digit) / 10) return std::nullopt;
            magnitude = 10 * magnitude + digit;
            ahead.rest.remove_prefix(1);
        }
        if (ahead.rest.size() == before) return std::nullopt;
        *this = ahead;
        return static_cast<Integer>(negative ? 0 - magnitude : magnitude);
    }
};

constexpr std::optional<FloatFormat> read_p3109_name(std::string_view name) {
    NameTokens t{name};
    const auto bits = t.take_number("binary");
    const auto precision = t.take_number("p");
    if (!bits || !precision || *bits > 64 || *precision > 64) return std::nullopt;
    const bool is_signed = t.take("s");
    if (!is_signed && !t.take("u")) return std::nullopt;
    const bool extended = t.take("e");
    if ((!extended && !t.take("f")) || !t.rest.empty()) return std::nullopt;
    return make_p3109(*bits, *precision, is_signed, extended);
}

constexpr std::optional<FloatFormat> read_general_name(std::string_view name) {
    NameTokens t{name};
    const auto exponent_bits = t.take_number("e");
    const auto mantissa_bits = t.take_number("m");
    if (!exponent_bits || !mantissa_bits) return std::nullopt;
    if (*exponent_bits < 0 || *exponent_bits > 99 || *mantissa_bits < 0 || *mantissa_bits > 99)
        return std::nullopt;
    Specials specials = Specials::ieee;
    if (t.take("fnuz")) specials = Specials::fnuz;
    else if (t.take("fn")) specials = Specials::fn;
    else if (t.take("finite")) specials = Specials::finite;
    FloatFormat f = make_format(*exponent_bits, *mantissa_bits, specials, !t.take("u"));
    if (const auto bias = t.take_number("b")) f = with_bias(f, *bias);
    if (t.take("nosub")) f.subnormals = false;
    else if (const auto exponent = t.take_number("sub")) f.subnormal_exponent = *exponent;
    if (t.take("zero1")) f.zero = Zero::single;
    else if (t.take("zero0")) f.zero = Zero::none;
    if (t.take("nannz")) f.nan_at_negative_zero = true;
    else if (const auto codes = t.take_number<std::uint64_t>("nan")) f.nan_codes = *codes;
    if (t.take("noinf")) f.has_infinity = false;
    else if (t.take("inf")) f.has_infinity = true;
    if (t.take("eventies")) f.even_code_ties = true;
    if (!t.rest.empty()) return std::nullopt;
    return f;
}

}  // namespace apscope::detail
