#include "emulation/schemes/one_bit/one_bit.h"

#include <charconv>
#include <numeric>
#include <stdexcept>

namespace apscope::detail {

double fraction(const SchemeArguments& arguments, std::string_view key) {
    const std::string& value = arguments.text(key);
    double number = -1.0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc{} && end == value.data() + value.size() && number >= 0.0 && number < 1.0) return number;
    throw std::invalid_argument(std::string(key) + "=" + value + " is not a number from 0 to below 1 (such as 0.9)");
}

std::size_t padded_length(std::size_t n, std::size_t workers) {
    const std::size_t unit = workers * std::lcm(workers, std::size_t{8});
    return (n + unit - 1) / unit * unit;
}

}  // namespace apscope::detail
