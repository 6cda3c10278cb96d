#include "emulation/schemes/scheme.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

#include "core/named_formats.h"
#include "core/nearest_names.h"
#include "emulation/schemes/policy.h"
#include "emulation/schemes/shared/groups.h"
#include "emulation/schemes/spec_text.h"

namespace apscope::detail {

namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument(sentence); }

std::string list(std::span<const std::string_view> names) {
    std::string all;
    for (const std::string_view name : names) all += (all.empty() ? "" : ", ") + std::string(name);
    return all;
}

// What follows "unknown ...": the nearest of the rows' names, else all of them after `words`.
template <class Rows>
std::string instead_of(std::string_view word, const Rows& rows, const std::string& words) {
    std::vector<std::string_view> names;
    for (const auto& row : rows) names.push_back(row.name);
    const std::string near = did_you_mean(word, names);
    return near.empty() ? words + list(names) : near;
}

}  // namespace

// Grids --------------------------------------------------------------------------------------------

int UniformGrid::code_bits() const {
    int bits = 1;
    while ((1L << bits) < 2L * levels + 1) ++bits;
    return bits;
}

std::string grid_name(const Grid& grid) {
    if (const auto* f = std::get_if<FloatGrid>(&grid)) return f->format.name();
    return "uniform:" + std::to_string(std::get<UniformGrid>(grid).levels);
}

std::string Scheme::grid_name() const {
    if (!policy.empty()) return "hybrid";
    return tensor ? tensor->grid : detail::grid_name(grid);
}

std::uint64_t payload_bits(const Grid& grid, std::size_t elements) {
    const int bits = std::holds_alternative<FloatGrid>(grid) ? std::get<FloatGrid>(grid).format.storage_bits()
                                                             : std::get<UniformGrid>(grid).code_bits();
    return static_cast<std::uint64_t>(bits) * elements;
}

bool is_stochastic(const Grid& grid) {
    const auto* f = std::get_if<FloatGrid>(&grid);
    return f == nullptr || is_stochastic(f->projection.rounding);
}

// Selection ----------------------------------------------------------------------------------------

Decision power_of_two(int exponent) { return {std::ldexp(1.0, exponent), exponent, false}; }

Decision scale_of(double scale) {
    int exponent = 0;
    if (std::frexp(scale, &exponent) == 0.5) return {scale, exponent - 1, false};
    return {scale, std::nullopt, false};
}

std::optional<int> common_exponent(std::span<const double> scales) {
    const bool one = !scales.empty() && std::all_of(scales.begin(), scales.end(), [&](double s) { return s == scales[0]; });
    return one ? scale_of(scales[0]).exponent : std::nullopt;
}

// Arguments ----------------------------------------------------------------------------------------

const std::string& SchemeArguments::text(std::string_view key) const { return keys.at(std::string(key)); }

long SchemeArguments::integer(std::string_view key, long least, long most) const {
    const std::string& value = text(key);
    long number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size() || number < least || number > most) {
        refuse(std::string(key) + "=" + value + " is not a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return number;
}

double SchemeArguments::real(std::string_view key) const {
    const std::string& value = text(key);
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    // Products with an fp32 gradient must be exact in fp64: an fp32 number, or any power of two.
    int exponent = 0;
    const bool power = std::frexp(number, &exponent) == 0.5 && exponent > -300 && exponent < 300;
    const bool single = number >= 0x1p-126 && number <= 0x1.fffffep127 && static_cast<float>(number) == number;
    if (error != std::errc{} || end != value.data() + value.size() || !(power || single)) {
        refuse(std::string(key) + "=" + value + " is not a positive fp32 number or a power of two (such as 1000 or 0.5)");
    }
    return number;
}

std::string_view SchemeArguments::choice(std::string_view key, std::span<const std::string_view> choices) const {
    const std::string& value = text(key);
    const auto found = std::find(choices.begin(), choices.end(), value);
    if (found == choices.end()) {
        refuse(std::string(key) + "=" + value + " is not one of " + list(choices));
    }
    return *found;
}

// Schemes made at run time ---------------------------------------------------------------------------

namespace {

struct Made {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<const Scheme>, std::less<>> schemes;
};
Made& made() {
    static Made& registry = *new Made;  // never destroyed: what it holds may belong to an interpreter that has ended
    return registry;
}

}  // namespace

void add_made_scheme(Scheme scheme) {
    const auto definitions = scheme_definitions();
    const bool taken = std::any_of(definitions.begin(), definitions.end(), [&](const auto& d) { return d.name == scheme.spec; });
    if (taken || scheme.spec.empty() || scheme.spec.find_first_of(":,;=()") != std::string::npos) {
        refuse("'" + scheme.spec + "' cannot name a new scheme; give a word that no scheme has, without :,;=()");
    }
    const std::string name = scheme.spec;
    const auto kept = std::make_shared<const Scheme>(std::move(scheme));
    const std::lock_guard lock(made().mutex);
    made().schemes[name] = kept;
}

std::shared_ptr<const Scheme> find_made_scheme(std::string_view name) {
    const std::lock_guard lock(made().mutex);
    const auto found = made().schemes.find(name);
    return found == made().schemes.end() ? nullptr : found->second;
}

// Parsing ------------------------------------------------------------------------------------------

std::vector<SchemeDefinition> in_family(std::string_view family, std::vector<SchemeDefinition> definitions) {
    for (SchemeDefinition& d : definitions) {
        if (d.body != SchemeDefinition::Body::scheme) d.family = d.body == SchemeDefinition::Body::policy ? "mixed" : family;
    }
    return definitions;
}

std::span<const SchemeDefinition> scheme_definitions() {
    static const std::vector<SchemeDefinition> definitions = [] {
        std::vector<SchemeDefinition> all;
        for (const auto& group : {baseline_group, aps_group, loss_scaling_group, recipes_group, stochastic_grids_group,
                                  one_bit_group, transforms_group}) {
            const std::vector<SchemeDefinition> part = group();
            all.insert(all.end(), part.begin(), part.end());
        }
        return all;
    }();
    return definitions;
}

namespace {

// A spec's parts: name, what stands in parentheses, and the settings behind.
struct SpecParts {
    std::string_view name, body, head;
    bool has_body = false;
    std::vector<std::string_view> settings;
};

SpecParts take_apart(std::string_view spec) {
    SpecParts parts;
    std::vector<std::string_view> pieces = split_outside(spec, ',');
    const std::string_view first = pieces[0];
    const std::size_t end = first.find_first_of("(:");
    parts.name = first.substr(0, end);
    if (end != std::string_view::npos && first[end] == '(') {
        if (first.back() != ')') refuse("scheme '" + std::string(spec) + "' has a parenthesis that is not closed before its keys");
        parts.has_body = true;
        parts.body = first.substr(end + 1, first.size() - end - 2);
    } else if (end != std::string_view::npos) {
        parts.head = first.substr(end + 1);
    }
    parts.settings.assign(pieces.begin() + 1, pieces.end());
    return parts;
}

// The spec again, from a policy's branches.
std::string policy_text(const std::vector<PolicyBranch>& policy) {
    std::string text;
    for (const PolicyBranch& branch : policy) text += (text.empty() ? "" : ";") + branch.condition + "=" + branch.scheme->spec;
    return text;
}

}  // namespace

Scheme parse_scheme(std::string_view spec) {
    if (const auto made = find_made_scheme(spec)) return *made;
    const SpecParts parts = take_apart(spec);
    const std::string_view name = parts.name;
    const std::span<const SchemeDefinition> definitions = scheme_definitions();
    const auto definition = std::find_if(definitions.begin(), definitions.end(), [&](const auto& d) { return d.name == name; });
    if (definition == definitions.end()) {
        refuse("unknown scheme '" + std::string(name) + "'" + instead_of(name, definitions, "; use one of "));
    }

    Scheme scheme;
    scheme.name = name;
    SchemeArguments arguments;
    for (const SchemeKey& key : definition->keys) arguments.keys[std::string(key.name)] = key.default_value;

    const std::string_view head = parts.head;
    std::vector<std::string_view> settings = parts.settings;
    using Body = SchemeDefinition::Body;
    if (parts.has_body != (definition->body != Body::none) || (parts.has_body && parts.body.empty())) {
        refuse(definition->body == Body::none     ? "scheme '" + std::string(name) + "' takes no parentheses"
               : definition->body == Body::policy ? "scheme '" + std::string(name) + "' needs its branches, as in hybrid(last=none:fp16;else=aps:e4m3)"
                                                  : "scheme '" + std::string(name) + "' needs a scheme, as in " + std::string(name) + "(aps:e4m3)");
    }
    arguments.body = parts.body;
    if (definition->body == Body::scheme) arguments.inner = std::make_shared<const Scheme>(parse_scheme(parts.body));
    if (definition->takes_format) {
        if (head.empty()) refuse("scheme '" + std::string(name) + "' needs a format, as in " + std::string(name) + ":e4m3");
        if (head.find('=') != std::string_view::npos) {
            refuse("scheme '" + std::string(spec) + "' has the key '" + std::string(head) + "' where its format belongs, as in " +
                   std::string(name) + ":e4m3," + std::string(head));
        }
        arguments.format = parse_format(head);
        require_fp32(*arguments.format, "a scheme");
        scheme.format = arguments.format->name();
    } else if (!head.empty()) {
        settings.insert(settings.begin(), head);
    }
    std::set<std::string> given;
    for (const std::string_view setting : settings) {
        const std::size_t equals = setting.find('=');
        const std::string key(setting.substr(0, equals));
        if (equals == std::string_view::npos) {
            refuse("scheme '" + std::string(spec) + "' has '" + std::string(setting) + "' where key=value belongs");
        }
        if (!arguments.keys.contains(key)) {
            refuse("scheme '" + std::string(name) + "' has no key '" + key + "'" + instead_of(key, definition->keys, "; its keys are "));
        }
        if (!given.insert(key).second) refuse("scheme '" + std::string(spec) + "' has the key '" + key + "' twice");
        arguments.keys[key] = setting.substr(equals + 1);
    }
    scheme.keys = arguments.keys;
    scheme.family = arguments.inner ? std::string_view(arguments.inner->family) : definition->family;
    definition->build(arguments, scheme);

    // Canonical: the keys that differ from their defaults, in the definition's order.
    scheme.spec = scheme.name;
    char separator = ':';
    if (definition->body != Body::none) {
        scheme.spec += "(" + (arguments.inner ? arguments.inner->spec : policy_text(scheme.policy)) + ")";
        separator = ',';
    }
    if (definition->takes_format) {
        scheme.spec += ":" + scheme.format;
        separator = ',';
    }
    for (const SchemeKey& key : definition->keys) {
        const std::string& value = scheme.keys.at(std::string(key.name));
        if (value == key.default_value) continue;
        scheme.spec += separator + std::string(key.name) + "=" + value;
        separator = ',';
    }
    return scheme;
}

}  // namespace apscope::detail
