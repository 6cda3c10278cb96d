// Schemes: definitions of the registered schemes, parsed specs, and the lists of specs.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "export.h"

namespace apscope {

/// @addtogroup schemes Schemes
/// @{

/// A key of a scheme's spec.
struct SchemeKey {
    std::string_view name, default_value, meaning;
};

/// A registered scheme: docs/schemes.md has them all.
struct SchemeDefinition {
    std::string_view name;      ///< the name in specs, such as aps
    std::string_view family;    ///< the family; empty for a combinator
    std::string_view summary;   ///< one line
    std::string_view source;    ///< the origin of the algorithm
    std::string_view needs;     ///< records that a trace must have
    bool takes_format = false;  ///< true: the spec is NAME:FORMAT
    std::string_view body;      ///< the content of the parentheses: scheme, policy or nothing
    std::vector<SchemeKey> keys;
};

/// All schemes of the library, family by family, without those of define_scheme().
[[nodiscard]] APSCOPE_API std::vector<SchemeDefinition> scheme_definitions();

/// A spec, parsed and checked.
struct Scheme {
    std::string spec;    ///< canonical, without keys at their defaults
    std::string name;    ///< the registered name
    std::string family;  ///< the family; summaries may show the best scheme of each family
    std::string format;  ///< the format's name; empty without one
    std::string grid;    ///< the column `format`: a float format or another grid
    std::map<std::string, std::string> keys;  ///< every key, including defaults
    std::vector<std::string> needs;  ///< inputs: some of weights, full_batch, loss, learning_rate
    bool keeps_state = false;        ///< true: the scheme has a memory from step to step
};

/// Parses and checks a spec, such as `aps:e4m3`.
/// @throws std::invalid_argument  An unknown name, key or value.
[[nodiscard]] APSCOPE_API Scheme scheme(std::string_view spec);

/// The specs of the list `main`, with which to choose formats and scales, and of the list `all`.
[[nodiscard]] APSCOPE_API std::vector<std::string> main_schemes();
[[nodiscard]] APSCOPE_API std::vector<std::string> all_schemes();

/// @}

}  // namespace apscope
