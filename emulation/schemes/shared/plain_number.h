// Keys whose values multiply no gradient, and so may be any number from 0.
#pragma once

#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// Finite, not below 0.
inline double plain_number(const SchemeArguments& arguments, std::string_view key) {
    const std::string& value = arguments.text(key);
    double number = -1.0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc{} && end == value.data() + value.size() && number >= 0.0 && std::isfinite(number)) return number;
    throw std::invalid_argument(std::string(key) + "=" + value + " is not a finite number from 0 (such as 0.5)");
}

}  // namespace apscope::detail
