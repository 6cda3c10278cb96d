// The types of elements that functions on ranges take. A call with other types does not compile,
// with a message of one sentence, instead of failing to link.
#pragma once

#include <concepts>
#include <cstdint>
#include <ranges>
#include <type_traits>

namespace apscope::detail {

template <class Number>
inline constexpr bool is_real = std::same_as<Number, float> || std::same_as<Number, double>;
template <class Number>
inline constexpr bool is_code =
    std::same_as<Number, std::uint8_t> || std::same_as<Number, std::uint16_t> ||
    std::same_as<Number, std::uint32_t> || std::same_as<Number, std::uint64_t>;

// True for a range that lies in memory without gaps.
template <class Range>
inline constexpr bool is_contiguous =
    std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range>;

// The functions below return true, or stop the compiler at the first condition that does not hold.

template <class Number>
consteval bool takes_number() {
    static_assert(is_real<Number>, "the numbers are float or double, all of one type");
    return is_real<Number>;
}

template <class Range>
consteval bool takes_numbers() {
    if constexpr (!is_contiguous<Range>) {
        static_assert(is_contiguous<Range>,
                      "the numbers are a contiguous range, such as std::vector or std::span");
        return false;
    } else {
        constexpr bool real = is_real<std::ranges::range_value_t<Range>>;
        static_assert(real, "the numbers are float or double");
        return real;
    }
}

template <class Values, class Codes>
consteval bool takes_codes() {
    if constexpr (!is_contiguous<Values> || !is_contiguous<Codes>) {
        static_assert(is_contiguous<Values>,
                      "the values are a contiguous range, such as std::vector or std::span");
        static_assert(is_contiguous<Codes>,
                      "the codes are a contiguous range, such as std::vector or std::span");
        return false;
    } else {
        using Real = std::ranges::range_value_t<Values>;
        using Code = std::ranges::range_value_t<Codes>;
        constexpr bool narrow = !std::same_as<Real, float> || sizeof(Code) <= 4;
        static_assert(is_real<Real>, "the values are float or double");
        static_assert(is_code<Code>, "the codes are std::uint8_t, std::uint16_t, std::uint32_t, or "
                                     "for doubles std::uint64_t");
        static_assert(!is_code<Code> || narrow,
                      "the codes of floats have at most 32 bits; use std::uint32_t, or doubles");
        return is_real<Real> && is_code<Code> && narrow;
    }
}

// Checks a range that a function takes as a forwarding reference and writes to.
template <class Range>
consteval bool is_written() {
    constexpr bool
        is_const = std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>,
        lives_on = std::ranges::borrowed_range<Range>;
    static_assert(!is_const, "the output is written, so it is not const");
    static_assert(lives_on, "the output is a variable or a span, not a temporary array");
    return !is_const && lives_on;
}

}  // namespace apscope::detail
