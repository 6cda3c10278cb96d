#include "emulation/schemes/one_bit/one_bit.h"

#include <numeric>

#include "core/parse.h"

namespace apscope::detail {

double fraction(const SchemeArguments& arguments, std::string_view key) {
    return parse_value<double>(key, arguments.text(key), [](double number) { return number >= 0.0 && number < 1.0; },
                               "a number from 0 to below 1 (such as 0.9)");
}

std::size_t padded_length(std::size_t n, std::size_t workers) {
    const std::size_t unit = workers * std::lcm(workers, std::size_t{8});
    return (n + unit - 1) / unit * unit;
}

}  // namespace apscope::detail
