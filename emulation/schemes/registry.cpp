// The registry: the schemes that CMake found in the families' folders (scheme_files.inc).
#include <algorithm>
#include <array>
#include <stdexcept>
#include <tuple>

#include "emulation/schemes/definition.h"

namespace apscope::detail {

#define APSCOPE_SCHEME(folder, name) SchemeDefinition name##_definition();
#include "emulation/schemes/scheme_files.inc"
#undef APSCOPE_SCHEME

namespace {

struct Family {
    std::string_view folder, label;
};
// The families in the order in which schemes are listed. A folder that is not in this list comes
// last, and its name is the family's label.
constexpr std::array families{
    Family{"baseline", "unscaled"},           Family{"aps", "APS"},
    Family{"loss_scaling", "loss scaling"},   Family{"recipes", "recipe"},
    Family{"stochastic_grids", "stochastic"}, Family{"one_bit", "one bit"},
    Family{"transforms", "transform"}};

struct DefinitionFile {
    std::string_view folder;
    SchemeDefinition definition;

    std::size_t place() const {
        const auto known = std::find_if(families.begin(), families.end(),
                                        [&](const Family& f) { return f.folder == folder; });
        return static_cast<std::size_t>(known - families.begin());
    }
    std::string_view label() const {
        using Body = SchemeDefinition::Body;
        if (definition.body != Body::none) return definition.body == Body::policy ? "mixed" : "";
        return place() < families.size() ? families[place()].label : folder;
    }
    bool operator<(const DefinitionFile& other) const {
        const auto order = [](const DefinitionFile& f) {
            return std::tuple(f.place(), f.folder,
                              f.definition.body != SchemeDefinition::Body::none, f.definition.name);
        };
        return order(*this) < order(other);
    }
};

}  // namespace

std::span<const SchemeDefinition> scheme_definitions() {
    static const std::vector<SchemeDefinition> definitions = [] {
        std::vector<DefinitionFile> files;
        const auto add = [&](std::string_view folder, std::string_view name,
                             SchemeDefinition definition) {
            definition.name = name;
            files.push_back({folder, std::move(definition)});
            files.back().definition.family = files.back().label();
        };
#define APSCOPE_SCHEME(folder, name) add(#folder, #name, name##_definition());
#include "emulation/schemes/scheme_files.inc"
#undef APSCOPE_SCHEME
        std::sort(files.begin(), files.end());
        std::vector<SchemeDefinition> all;
        for (DefinitionFile& f : files) all.push_back(std::move(f.definition));
        return all;
    }();
    return definitions;
}

void MadeSchemes::add(Scheme scheme) {
    const auto definitions = scheme_definitions();
    const bool taken = std::any_of(definitions.begin(), definitions.end(),
                                   [&](const auto& d) { return d.name == scheme.spec; });
    if (taken)
        throw std::invalid_argument("'" + scheme.spec +
                                    "' cannot name a new scheme: it is the name of a scheme of "
                                    "apscope; give another one");
    if (scheme.spec.empty() || scheme.spec.find_first_of(":,;=()@ \t\r\n") != std::string::npos)
        throw std::invalid_argument("'" + scheme.spec +
                                    "' cannot name a new scheme; give a word without :,;=()@ and "
                                    "without spaces");
    const std::string name = scheme.spec;
    auto added = std::make_shared<const Scheme>(std::move(scheme));
    const std::lock_guard lock(mutex_);
    schemes_[name].swap(added);  // the replaced scheme is destroyed without the lock
}

std::shared_ptr<const Scheme> MadeSchemes::find(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto match = schemes_.find(name);
    return match == schemes_.end() ? nullptr : match->second;
}

std::vector<std::string> MadeSchemes::names() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, scheme] : schemes_) names.push_back(name);
    return names;
}

}  // namespace apscope::detail
