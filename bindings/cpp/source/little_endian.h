// The bytes of numbers in files. Files have little-endian numbers, and so has the memory.
#pragma once

#include <bit>
#include <span>
#include <string_view>
#include <type_traits>

namespace apscope {

static_assert(std::endian::native == std::endian::little,
              "numbers are written to files as they are in memory");

template <class Number>
std::string_view bytes_of(std::span<const Number> numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
}
// The view is of `number` itself.
template <class Number>
    requires std::is_arithmetic_v<Number>
std::string_view bytes_of(const Number& number) {
    return bytes_of(std::span<const Number>(&number, 1));
}

}  // namespace apscope
