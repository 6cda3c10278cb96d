// The number of elements of an array, from lengths that a caller gives. Every function that accepts
// a count, a shape or a number of rows multiplies with checked_size(), because a product that wraps
// around could equal the size of an array by mistake.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace apscope::detail {

// Such as "(2, 3)", and "(2,)" of one length.
std::string shape_text(const std::ranges::sized_range auto& lengths) {
    std::string text;
    for (const auto length : lengths) text += (text.empty() ? "(" : ", ") + std::to_string(length);
    return (text.empty() ? "(" : text) + (std::ranges::size(lengths) == 1 ? ",)" : ")");
}

// Throws with the message "WHAT (2, -3) REASON".
template <std::integral Length>
[[noreturn]] void refuse_lengths(std::string_view what, std::span<const Length> lengths,
                                 std::string_view reason) {
    throw std::invalid_argument(std::string(what) + " " + shape_text(lengths) + " " +
                                std::string(reason));
}

// The product of the lengths; 1 if there are no lengths. Throws std::invalid_argument for a
// negative length, and if the product of the lengths other than 0 exceeds the largest std::size_t,
// so that the product of any subset of the lengths fits too. `what` names the lengths in the
// message.
template <std::integral Length>
std::size_t checked_size(std::span<const Length> lengths, std::string_view what = "the shape") {
    std::size_t nonzero = 1;
    bool empty = false;
    for (const Length length : lengths) {
        if (std::cmp_less(length, 0))
            refuse_lengths(what, lengths, "has a negative length; lengths are 0 or more");
        const auto factor = static_cast<std::size_t>(length);
        empty |= factor == 0;
        if (factor > std::numeric_limits<std::size_t>::max() / nonzero)
            refuse_lengths(what, lengths, "has more elements than any array; give smaller lengths");
        if (factor > 0) nonzero *= factor;
    }
    return empty ? 0 : nonzero;
}
inline std::size_t checked_size(std::initializer_list<std::size_t> lengths,
                                std::string_view what = "the shape") {
    return checked_size(std::span<const std::size_t>(lengths.begin(), lengths.size()), what);
}

}  // namespace apscope::detail
