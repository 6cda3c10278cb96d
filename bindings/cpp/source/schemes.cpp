#include "bindings/cpp/apscope/schemes.h"

#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/made_schemes.h"
#include "core/float_environment.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/lists.h"

namespace apscope {

std::vector<SchemeDefinition> scheme_definitions() {
    std::vector<SchemeDefinition> all;
    for (const detail::SchemeDefinition& d : detail::scheme_definitions()) {
        SchemeDefinition& own = all.emplace_back(SchemeDefinition{
            d.name, d.family, d.summary, d.source, d.needs, d.takes_format, body_name(d.body), {}});
        for (const detail::SchemeKey& key : d.keys)
            own.keys.push_back({key.name, key.default_value, key.meaning});
    }
    return all;
}

Scheme scheme(std::string_view spec) try {
    const detail::FloatEnvironment environment;
    const detail::Scheme s = parse_any_scheme(spec);
    return {s.spec,       s.name, s.family,      s.format,
            s.parts.grid, s.keys, s.parts.needs, s.parts.keeps_state()};
} catch (...) {
    detail::throw_error();
}

std::vector<std::string> main_schemes() {
    const detail::FloatEnvironment environment;
    return detail::main_schemes();
}
std::vector<std::string> all_schemes() {
    const detail::FloatEnvironment environment;
    return detail::all_schemes();
}

}  // namespace apscope
