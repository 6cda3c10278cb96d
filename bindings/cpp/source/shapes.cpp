#include "bindings/cpp/source/shapes.h"

#include <map>
#include <string_view>

#include "bindings/cpp/source/sentences.h"
#include "core/error.h"
#include "core/sizes.h"

namespace apscope {
namespace {

std::map<std::string_view, const Shape*> by_name(const Shapes& shapes) {
    std::map<std::string_view, const Shape*> all;
    for (const auto& [name, shape] : shapes) all.emplace(name, &shape);
    return all;
}

}  // namespace

void compare(const Shapes& found, const Shapes& expected, const std::string& where) {
    if (found == expected) return;
    const auto own = by_name(found), others = by_name(expected);
    for (const auto& [name, shape] : expected) {
        const auto at = own.find(name);
        if (at == own.end()) throw error(where + " lacks the tensor " + in_quotes(name));
        if (*at->second != shape)
            throw error(where + ": tensor " + in_quotes(name) + " has shape " +
                        detail::shape_text(*at->second) + ", but had " + detail::shape_text(shape) +
                        " before");
    }
    for (const auto& [name, shape] : found)
        if (!others.contains(name))
            throw error(where + " has the tensor " + in_quotes(name) +
                        ", which the trace does not have");
}

}  // namespace apscope
