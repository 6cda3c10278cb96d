#include "emulation/schemes/shared/numbers.h"

#include <charconv>
#include <sstream>
#include <stdexcept>

namespace apscope::detail {

namespace {

std::string shown(double number) {
    std::ostringstream out;
    out << number;
    return out.str();
}

}  // namespace

double number_between(const SchemeArguments& arguments, std::string_view key, double least, double most) {
    const std::string& value = arguments.text(key);
    double number = 0.0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc{} && end == value.data() + value.size() && number >= least && number <= most) return number;
    throw std::invalid_argument(std::string(key) + "=" + value + " is not a number from " + shown(least) + " to " + shown(most));
}

}  // namespace apscope::detail
