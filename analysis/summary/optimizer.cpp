#include "analysis/summary/optimizer.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace apscope::detail {

namespace {

std::optional<Optimizer> named(std::string_view name) {
    const auto match = std::ranges::find(optimizer_names, name);
    if (match == optimizer_names.end()) return std::nullopt;
    return static_cast<Optimizer>(match - optimizer_names.begin());
}

}  // namespace

Optimizer parse_optimizer(std::string_view name) {
    if (const auto optimizer = named(name)) return *optimizer;
    throw std::invalid_argument("optimizer='" + std::string(name) +
                                "' is not one of sgd, adam, lars");
}

std::optional<Optimizer> asked_optimizer(const std::optional<std::string>& name) {
    return name ? std::optional(parse_optimizer(*name)) : std::nullopt;
}

std::optional<Optimizer> optimizer_told(std::string_view text) {
    std::string word;  // the part of the name after the last point
    for (const char c : text) {
        const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        const bool is_word = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '_';
        if (c == '.') word.clear();
        else if (is_word) word += lower;
        else break;
    }
    return named(word == "adamw" ? "adam" : word);
}

}  // namespace apscope::detail
