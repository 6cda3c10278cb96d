#include "emulation/schemes/numbers.h"

#include <charconv>
#include <sstream>
#include <stdexcept>

#include "emulation/spec_text.h"

namespace apscope {

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

std::vector<int> number_list(const SchemeArguments& arguments, std::string_view key, int least, int most) {
    const std::string& value = arguments.text(key);
    std::vector<int> numbers;
    for (const std::string_view part : split_outside(value, '/')) {
        int number = 0;
        const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
        if (error != std::errc{} || end != part.data() + part.size() || number < least || number > most) {
            throw std::invalid_argument(std::string(key) + "=" + value + " is not whole numbers from " + std::to_string(least) + " to " +
                                        std::to_string(most) + " with / between them, such as 6/6/8/8");
        }
        numbers.push_back(number);
    }
    return numbers;
}

}  // namespace apscope
