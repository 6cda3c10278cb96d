// The definition of a scheme, the registry of all schemes, and the parser of specs.
//
// A file emulation/schemes/FAMILY/NAME.cpp with a function NAME_definition() defines a scheme:
// CMakeLists.txt finds the file, and the registry takes the scheme's name and family from the path.
// No other file must be changed.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// A key that a spec of the scheme may have.
struct SchemeKey {
    std::string_view name, default_value, meaning;
};

// The key of schemes whose encoding draws; parse_scheme() applies it.
inline constexpr SchemeKey correlated_key{
    "correlated", "false",
    "true: random words of different workers lie in different W-th parts of [0, 1)"};

// The arguments of a scheme in a spec. All functions but text() throw std::invalid_argument, with a
// message of one sentence, if the value is invalid.
struct SchemeArguments {
    std::optional<FloatFormat> format;
    std::shared_ptr<const Scheme> inner;      // the scheme inside a combinator
    Policy policy;                            // the branches, if the scheme is a policy
    std::map<std::string, std::string> keys;  // value of every key of the definition

    // The value of a key, as it stands in the spec.
    const std::string& text(std::string_view key) const;
    // `word`: the texts that the key accepts besides numbers, for the error message.
    long integer(std::string_view key, long min, long max, std::string_view word = {}) const;
    // A finite number, min <= value <= max.
    double number(std::string_view key, double min,
                  double max = std::numeric_limits<double>::infinity()) const;
    double fraction(std::string_view key) const;  // 0 <= value < 1, such as a momentum's factor
    // A positive fp32 number or a power of two, so that products with fp32 numbers are exact.
    double scale(std::string_view key, std::string_view word = {}) const;
    bool flag(std::string_view key) const;  // the value `true` or `false`
    // The value of a key, which must be one of `choices`.
    std::string_view choice(std::string_view key, std::span<const std::string_view> choices) const;
    // choice() as a value of an enumeration, whose values have the order of `choices`.
    template <class Enum>
    Enum one_of(std::string_view key, std::span<const std::string_view> choices) const {
        return static_cast<Enum>(place_of(key, choices));
    }

private:
    std::size_t place_of(std::string_view key, std::span<const std::string_view> choices) const;
};

struct SchemeDefinition {
    std::string_view class_name = {};  // the name of the class in Python, such as APS
    std::string_view summary = {};     // the scheme in one line
    std::string_view source = {};      // the origin of the algorithm
    std::string_view needs = {};       // records that a trace must have
    enum class Body { none, scheme, policy } body = Body::none;  // the content of the parentheses
    // True if a spec must give a float format after the colon.
    bool takes_format = false;
    std::vector<SchemeKey> keys = {};
    // The key whose value may follow the colon without its name, as in canonical specs.
    std::string_view grid_key = {};
    // A note written in every result row; for a combinator, the note of its inner scheme is
    // written.
    std::string_view note = {};
    // Makes the parts of a scheme with these arguments.
    SchemeParts (*build)(const SchemeArguments&) = nullptr;
    // Gives the family if it depends on the arguments; if null, the folder determines the family.
    std::string_view (*family_of)(const SchemeArguments&) = nullptr;

    // The registry fills in the next two members.
    std::string_view name = {};  // the name in specs, such as aps
    // The family, such as APS or loss scaling; a summary shows the best scheme of each family.
    // Empty for combinators, whose schemes have the family of the inner scheme.
    std::string_view family = {};
};

// The word for a body: scheme, policy, or empty.
constexpr std::string_view body_name(SchemeDefinition::Body body) {
    return body == SchemeDefinition::Body::none     ? ""
           : body == SchemeDefinition::Body::scheme ? "scheme"
                                                    : "policy";
}

// All definitions, ordered by family folder and, in a folder, by name; combinators and policies
// come last in their folder.
std::span<const SchemeDefinition> scheme_definitions();

// Schemes made at run time in Python: their owner passes them to parse_scheme().
class MadeSchemes {
public:
    // Adds a scheme, which replaces an earlier one of the same name. Throws std::invalid_argument
    // for a name that is invalid in specs or that a definition has.
    void add(Scheme scheme);
    std::shared_ptr<const Scheme> find(std::string_view name) const;
    std::vector<std::string> names() const;

private:
    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<const Scheme>, std::less<>> schemes_;
};

// Parses name[:format][,key=value...], name(SPEC)[,key=value...], hybrid(CONDITION=SPEC;...) or the
// name of a made scheme. Throws std::invalid_argument for an unknown name, key or value.
Scheme parse_scheme(std::string_view spec, const MadeSchemes* made = nullptr);

}  // namespace apscope::detail
