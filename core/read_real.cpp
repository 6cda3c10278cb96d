// Reads a double with the syntax of std::from_chars. The syntax is matched by hand, because the C
// library, which converts the text, accepts more.
#include <algorithm>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <string>

#include "core/parse.h"

namespace apscope::detail {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool begins_with(const char* at, const char* end, std::string_view word) {
    const auto same = [](char a, char b) {
        return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
    };
    return static_cast<std::size_t>(end - at) >= word.size() &&
           std::equal(word.begin(), word.end(), at, [&](char b, char a) { return same(a, b); });
}

// The end of inf, infinity, nan or nan(CHARACTERS) that begins at `at`; `at` itself if there is
// none.
const char* end_of_word(const char* at, const char* end) {
    for (const std::string_view word : {"infinity", "inf"}) {
        if (begins_with(at, end, word)) return at + word.size();
    }
    if (!begins_with(at, end, "nan")) return at;
    at += 3;
    if (at == end || *at != '(') return at;
    const char* const close = std::find_if(at + 1, end, [](char c) {
        return !is_digit(c) && c != '_' && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z');
    });
    return close != end && *close == ')' ? close + 1 : at;
}

// The end of DIGITS[.DIGITS][e[SIGN]DIGITS] that begins at `at`, with a digit before or after the
// point; `at` itself if there is none.
const char* end_of_digits(const char* at, const char* end) {
    const char* const integer_end = std::find_if_not(at, end, is_digit);
    const char* rest = integer_end;
    if (integer_end != end && *integer_end == '.') {
        rest = std::find_if_not(integer_end + 1, end, is_digit);
        if (rest == integer_end + 1 && integer_end == at) return at;
    }
    if (rest == at || rest == end || (*rest != 'e' && *rest != 'E')) return rest;
    const char* exponent = rest + 1;
    if (exponent != end && (*exponent == '+' || *exponent == '-')) ++exponent;
    const char* const last = std::find_if_not(exponent, end, is_digit);
    return last == exponent ? rest : last;
}

}  // namespace

std::from_chars_result read_real(const char* begin, const char* end, double& number) {
    const char* const first = begin != end && *begin == '-' ? begin + 1 : begin;
    const char* const digits = end_of_digits(first, end);
    const char* const last = digits != first ? digits : end_of_word(first, end);
    if (last == first) return {begin, std::errc::invalid_argument};
    // In this locale the decimal point is '.'.
    static const locale_t c = ::newlocale(LC_ALL_MASK, "C", locale_t{});
    const double value = ::strtod_l(std::string(begin, last).c_str(), nullptr, c);
    const bool is_zero =
        std::all_of(first, std::find_if(first, last, [](char x) { return x == 'e' || x == 'E'; }),
                    [](char x) { return x == '0' || x == '.'; });
    if (digits != first && (std::isinf(value) || (value == 0.0 && !is_zero)))
        return {last, std::errc::result_out_of_range};
    number = value;
    return {last, std::errc{}};
}

}  // namespace apscope::detail
