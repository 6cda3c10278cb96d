#include "bindings/cpp/source/hidden_names.h"

#include <cstddef>
#include <cstdio>
#include <random>

namespace apscope {
namespace {

constexpr std::size_t digits = 8;

}  // namespace

std::string hidden_name(std::string_view name, std::string_view ending) {
    constexpr std::size_t longest = 100;  // file systems allow 255 bytes
    return "." + std::string(name.substr(0, longest)) + ".apscope-" + std::string(ending);
}

std::string lock_name(std::string_view name) { return hidden_name(name, "lock"); }

std::string fresh_name(std::string_view name) {
    std::random_device random;
    char text[digits + 1];
    std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(random()) & 0xffffffffu);
    return hidden_name(name, text);
}

bool is_fresh_name(std::string_view hidden, std::string_view name) {
    const std::string stem = hidden_name(name, "");
    return hidden.starts_with(stem) && hidden.size() == stem.size() + digits &&
           hidden.find_first_not_of("0123456789abcdef", stem.size()) == std::string_view::npos;
}

}  // namespace apscope
