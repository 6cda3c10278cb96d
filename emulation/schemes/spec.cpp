// The arguments of a scheme in a spec, and the parser of specs.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/limits.h"
#include "core/named_formats.h"
#include "core/nearest_names.h"
#include "core/parse.h"
#include "core/rounding_words.h"
#include "core/spec_text.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/typed_schemes.h"

namespace apscope::detail {

namespace {

using limits::clipped;

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument(sentence); }

std::string list(std::span<const std::string_view> names) {
    std::string all;
    for (const std::string_view name : names) all += (all.empty() ? "" : ", ") + std::string(name);
    return all;
}

template <class Rows>
std::vector<std::string_view> names_of(const Rows& rows) {
    std::vector<std::string_view> names;
    for (const auto& row : rows) names.push_back(row.name);
    return names;
}

// The text after "unknown ...": a question with the nearest of the names or, if none is near,
// `words` and a list of all names.
std::string instead_of(std::string_view word, std::span<const std::string_view> names,
                       const std::string& words) {
    const std::string near = did_you_mean(word, names);
    return near.empty() ? words + list(names) : near;
}

std::string setting(const SchemeArguments& arguments, std::string_view key) {
    return std::string(key) + "=" + clipped(arguments.text(key));
}

}  // namespace

// Arguments
// ----------------------------------------------------------------------------------------

const std::string& SchemeArguments::text(std::string_view key) const {
    return keys.at(std::string(key));
}

long SchemeArguments::integer(std::string_view key, long min, long max,
                              std::string_view word) const {
    return parse_integer(key, text(key), min, max, word);
}

double SchemeArguments::number(std::string_view key, double min, double max) const {
    return parse_real(key, text(key), min, max);
}

double SchemeArguments::fraction(std::string_view key) const {
    return parse_value<double>(
        key, text(key), [](double number) { return number >= 0.0 && number < 1.0; },
        "a number from 0 to below 1 (such as 0.9)");
}

double SchemeArguments::scale(std::string_view key, std::string_view word) const {
    const auto exact = [](double number) {
        int exponent = 0;
        const bool power =
            std::frexp(number, &exponent) == 0.5 && exponent > -300 && exponent < 300;
        const bool single =
            number >= 0x1p-126 && number <= 0x1.fffffep127 && static_cast<float>(number) == number;
        return power || single;
    };
    const std::optional<double> number = parse_number<double>(text(key));
    const float nearest = number ? static_cast<float>(*number) : 0.0f;
    if (number && !exact(*number) && exact(nearest)) {
        refuse(setting(*this, key) +
               " is neither an fp32 number nor a power of two, as exact products with gradients "
               "need; use " +
               shortest(static_cast<double>(nearest)) + ", the nearest fp32 number");
    }
    return parse_value<double>(
        key, text(key), exact,
        word_or(word) + "a positive fp32 number or a power of two (such as 1000 or 0.5)");
}

bool SchemeArguments::flag(std::string_view key) const {
    constexpr std::array<std::string_view, 2> choices{"false", "true"};
    return place_of(key, choices) == 1;
}

std::size_t SchemeArguments::place_of(std::string_view key,
                                      std::span<const std::string_view> choices) const {
    const auto match = std::find(choices.begin(), choices.end(), text(key));
    if (match == choices.end()) refuse(setting(*this, key) + " is not one of " + list(choices));
    return static_cast<std::size_t>(match - choices.begin());
}

std::string_view SchemeArguments::choice(std::string_view key,
                                         std::span<const std::string_view> choices) const {
    return choices[place_of(key, choices)];
}

// Parsing
// ------------------------------------------------------------------------------------------

namespace {

using Body = SchemeDefinition::Body;

// The parts of a spec: its name, body (the text in parentheses), head (the text after the colon)
// and settings (key=value).
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
        if (first.back() != ')')
            refuse("scheme '" + clipped(spec) +
                   "' has a parenthesis that is not closed before its keys");
        parts.has_body = true;
        parts.body = first.substr(end + 1, first.size() - end - 2);
    } else if (end != std::string_view::npos) {
        parts.head = first.substr(end + 1);
    }
    parts.settings.assign(pieces.begin() + 1, pieces.end());
    return parts;
}

void check_limits(std::string_view spec) {
    if (spec.size() > limits::spec_length) {
        refuse("scheme '" + clipped(spec) + "' has " + std::to_string(spec.size()) +
               " characters; at most " + std::to_string(limits::spec_length) + " are read");
    }
    if (spec.find("\u2026") != std::string_view::npos) {
        refuse("scheme '" + clipped(spec) +
               "' is clipped, as tables print it; take it whole from --csv or results.csv");
    }
    std::size_t depth = 0;
    for (const char c : spec) {
        if (c == '(' && ++depth > limits::spec_depth) {
            refuse("scheme '" + clipped(spec) + "' nests more than " +
                   std::to_string(limits::spec_depth) + " schemes; nest fewer");
        }
        if (c == ')' && depth > 0) --depth;
    }
}

// The hint for a scheme's name and a format that are not separated by a colon, such as aps-e4m3.
std::string meant_by(std::string_view word, std::span<const SchemeDefinition> definitions) {
    for (const SchemeDefinition& d : definitions) {
        if (!d.takes_format || !word.starts_with(d.name)) continue;
        std::string_view rest = word.substr(d.name.size());
        rest.remove_prefix(std::min(rest.find_first_not_of("-_ /."), rest.size()));
        try {
            return "; did you mean " + std::string(d.name) + ":" + parse_format(rest).name() + "?";
        } catch (const std::invalid_argument&) {  // another scheme's name may begin in the same way
        }
    }
    return "";
}

// The definition with this name; null if there is none.
const SchemeDefinition* definition_of(std::string_view name) {
    const std::span<const SchemeDefinition> definitions = scheme_definitions();
    const auto match = std::find_if(definitions.begin(), definitions.end(),
                                    [&](const auto& d) { return d.name == name; });
    return match == definitions.end() ? nullptr : &*match;
}

[[noreturn]] void refuse_scheme(std::string_view name, const MadeSchemes* made) {
    if (made != nullptr && made->find(name) != nullptr)
        refuse("scheme '" + std::string(name) +
               "' is made of functions and takes no format, keys or parentheses");
    const std::span<const SchemeDefinition> definitions = scheme_definitions();
    std::string meant = scheme_hint(name);
    if (meant.empty()) meant = meant_by(name, definitions);
    std::vector<std::string_view> names = names_of(definitions);
    const std::vector<std::string> defined = made ? made->names() : std::vector<std::string>();
    names.insert(names.end(), defined.begin(), defined.end());
    refuse("unknown scheme '" + clipped(name) + "'" +
           (meant.empty() ? instead_of(name, names, "; use one of ") : meant));
}

void read_body(const SchemeDefinition& definition, const SpecParts& parts, const MadeSchemes* made,
               SchemeArguments& arguments) {
    const std::string name(parts.name);
    if (parts.has_body != (definition.body != Body::none) ||
        (parts.has_body && parts.body.empty())) {
        refuse(definition.body == Body::none ? "scheme '" + name + "' takes no parentheses"
               : definition.body == Body::policy
                   ? "scheme '" + name +
                         "' needs its branches, as in hybrid(last=none:fp16;else=aps:e4m3)"
                   : "scheme '" + name + "' needs a scheme, as in " + name + "(aps:e4m3)");
    }
    const auto parse = [made](std::string_view spec) { return parse_scheme(spec, made); };
    if (definition.body == Body::scheme)
        arguments.inner = std::make_shared<const Scheme>(parse(parts.body));
    if (definition.body == Body::policy) arguments.policy = parse_policy(parts.body, parse);
}

// For a scheme without a format: the key of a value that follows the colon without a key.
std::string_view key_of_head(const SchemeDefinition& definition, std::string_view spec,
                             std::string_view head) {
    if (!definition.grid_key.empty()) return definition.grid_key;
    const auto has_key = [&](std::string_view key) {
        return std::ranges::any_of(definition.keys,
                                   [&](const SchemeKey& k) { return k.name == key; });
    };
    if (constexpr std::string_view block = "block_format"; has_key(block)) return block;
    std::string instead = bare_hint(definition, head);
    if (instead.empty() && parse_number<double>(head) && !definition.keys.empty()) {
        instead =
            "; did you mean " + std::string(definition.keys[0].name) + "=" + clipped(head) + "?";
    }
    refuse(
        "scheme '" + clipped(spec) + "' has '" + clipped(head) + "' in the place of key=value" +
        (instead.empty() ? instead_of("", names_of(definition.keys), "; its keys are ") : instead));
}

void read_keys(const SchemeDefinition& definition, std::string_view spec,
               std::span<const std::string_view> settings, SchemeArguments& arguments) {
    std::set<std::string> names;
    for (const std::string_view text : settings) {
        const std::size_t equals = text.find('=');
        const std::string key(text.substr(0, equals));
        if (equals == std::string_view::npos) {
            refuse("scheme '" + clipped(spec) + "' has '" + clipped(text) +
                   "' in the place of key=value" + bare_hint(definition, text));
        }
        if (!arguments.keys.contains(key)) {
            const std::string meant = key_hint(definition, key, text.substr(equals + 1));
            refuse("scheme '" + std::string(definition.name) + "' has no key '" + clipped(key) +
                   "'" +
                   (meant.empty() ? instead_of(key, names_of(definition.keys), "; its keys are ")
                                  : meant));
        }
        if (!names.insert(key).second)
            refuse("scheme '" + clipped(spec) + "' has the key '" + clipped(key) + "' twice");
        const std::string_view value = text.substr(equals + 1);
        arguments.keys[key] =
            key.ends_with("rounding") ? std::string(rounding_word(value)) : value_word(key, value);
    }
}

// The spec without the keys that have their default values; the others are in the definition's
// order.
std::string canonical_spec(const SchemeDefinition& definition, const SchemeArguments& arguments) {
    std::string spec(definition.name);
    char separator = ':';
    if (definition.body != Body::none) {
        spec += "(" + (arguments.inner ? arguments.inner->spec : arguments.policy.text()) + ")";
        separator = ',';
    }
    if (definition.takes_format) {
        spec +=
            ":" + arguments.format
                      ->name();  // NOLINT(bugprone-unchecked-optional-access): takes_format is set
        separator = ',';
    }
    if (!definition.grid_key.empty()) {
        spec += separator + arguments.text(definition.grid_key);
        separator = ',';
    }
    for (const SchemeKey& key : definition.keys) {
        const std::string& value = arguments.text(key.name);
        if (value == key.default_value || key.name == definition.grid_key) continue;
        spec += separator + std::string(key.name) + "=" + value;
        separator = ',';
    }
    return spec;
}

// correlated=true: see SchemeEncoding::correlated. The messages then have common random words.
void correlate(const std::string& name, SchemeParts& parts) {
    SchemeEncoding& encoding = parts.encoding;
    if (!encoding.draws && !(encoding.float_encoder && is_stochastic(encoding.float_encoder->grid)))
        refuse("scheme '" + name +
               "' draws no random words for its messages, so correlated=true does not apply to it; "
               "give rounding=stochastic, or leave correlated out");
    encoding.correlated = true;
    if (!parts.choice.draw) parts.choice.draw = common_words;
}

}  // namespace

Scheme parse_scheme(std::string_view spec, const MadeSchemes* made) {
    if (const auto known = made != nullptr ? made->find(spec) : nullptr) return *known;
    check_limits(spec);
    const SpecParts parts = take_apart(spec);
    const std::string name(parts.name);
    const SchemeDefinition* match = definition_of(name);
    if (match == nullptr) {
        const std::string begun = spec_begun_by(name);
        if (begun.empty()) refuse_scheme(name, made);
        return parse_scheme(begun + std::string(spec.substr(name.size())), made);
    }
    const SchemeDefinition& definition = *match;

    SchemeArguments arguments;
    for (const SchemeKey& key : definition.keys)
        arguments.keys[std::string(key.name)] = key.default_value;
    read_body(definition, parts, made, arguments);
    std::vector<std::string_view> settings = parts.settings;
    if (definition.takes_format) {
        if (parts.head.empty())
            refuse("scheme '" + name + "' needs a format, as in " + name + ":e4m3");
        if (parts.head.find('=') != std::string_view::npos) {
            refuse("scheme '" + clipped(spec) + "' has the key '" + clipped(parts.head) +
                   "' in the place of its format, as in " + name + ":e4m3," + clipped(parts.head));
        }
        if (const std::string sentence = format_hint(definition, parts.head); !sentence.empty())
            refuse(sentence);
        arguments.format = parse_format(parts.head);
        require_fp32(*arguments.format, "a scheme");
    }
    std::string head(parts.head);
    if (!definition.takes_format && !head.empty()) {
        const std::string_view key = parts.head.substr(0, parts.head.find('='));
        // The text may contain '=' and still have no key, if it is a block format with settings:
        // mx:blocks:e3m0/block=16.
        if (key == parts.head || key.find_first_of(":/") != std::string_view::npos)
            head = std::string(key_of_head(definition, spec, head)) + "=" + head;
        settings.insert(settings.begin(), head);
    }
    read_keys(definition, spec, settings, arguments);

    Scheme scheme;
    scheme.parts = definition.build(arguments);
    if (arguments.keys.contains("correlated") && arguments.flag("correlated"))
        correlate(name, scheme.parts);
    scheme.name = name;
    scheme.spec = canonical_spec(definition, arguments);
    scheme.format = arguments.format ? arguments.format->name() : "";
    scheme.keys = arguments.keys;
    scheme.family = arguments.inner
                        ? arguments.inner->family
                        : std::string(definition.family_of ? definition.family_of(arguments)
                                                           : definition.family);
    scheme.note = arguments.inner ? arguments.inner->note : std::string(definition.note);
    scheme.policy = std::move(arguments.policy);
    return scheme;
}

}  // namespace apscope::detail
