#include "emulation/allreduce/topology_keys.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "core/block_format.h"
#include "core/limits.h"
#include "core/named_formats.h"
#include "core/parse.h"

namespace apscope::detail {

void refuse(const std::string& sentence) { throw std::invalid_argument(sentence); }

std::string listed(const std::vector<std::string>& names, std::string_view last) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (i != 0) text += i + 1 == names.size() ? last : ", ";
        text += names[i];
    }
    return text;
}

namespace {

// Throws std::invalid_argument if a key occurs twice.
void refuse_repeated(const std::string& full_name, std::span<const std::string_view> settings) {
    const auto key = [](std::string_view setting) { return setting.substr(0, setting.find('=')); };
    for (std::size_t i = 1; i < settings.size(); ++i) {
        if (std::ranges::count(settings.first(i), key(settings[i]), key) > 0)
            refuse("topology '" + limits::clipped(full_name) + "' has the key '" +
                   limits::clipped(key(settings[i])) + "' twice; give it once");
    }
}

}  // namespace

TwoPhase phases_of(const std::string& full_name, std::string_view name,
                   std::span<const std::string_view> settings) {
    refuse_repeated(full_name, settings);
    TwoPhase phases;
    phases.has_phase2 = name != "reduce_scatter";
    for (const std::string_view setting : settings) {
        const std::size_t equals = setting.find('=');
        const std::string_view key = setting.substr(0, equals),
                               value = equals == setting.npos ? "" : setting.substr(equals + 1);
        if (key == "sum" && (value == "fp32" || value == "exact")) phases.sum = value;
        else if (key == "sum") phases.sum = parse_format(value).name();
        else if (key == "own" && (value == "exact" || value == "encoded"))
            phases.own_exact = value == "exact";
        else if (key == "phase2" && phases.has_phase2 && value.size() > 2 &&
                 value.starts_with('(') && value.ends_with(')'))
            phases.phase2 = value.substr(1, value.size() - 2);
        else
            refuse("topology '" + limits::clipped(full_name) + "' has '" +
                   limits::clipped(setting) +
                   "'; its keys are sum=fp32, sum=exact or sum=FORMAT, own=encoded or own=exact" +
                   (phases.has_phase2 ? " and phase2=(SCHEME), as in phase2=(aps:e5m2)" : ""));
    }
    return phases;
}

Channels channels_of(const std::string& full_name, std::string_view name,
                     std::span<const std::string_view> settings) {
    refuse_repeated(full_name, settings);
    Channels channels;
    for (const std::string_view setting : settings) {
        const std::size_t equals = setting.find('=');
        const std::string_view key = setting.substr(0, equals),
                               value = equals == setting.npos ? "" : setting.substr(equals + 1);
        const int number = key == "channels" ? parse_number<int>(value).value_or(0) : 0;
        const std::optional<Protocol> protocol =
            key == "protocol" ? parse_protocol(value) : std::nullopt;
        if (number >= 1 && number <= Channels::most) channels.count = number;
        else if (protocol) channels.protocol = *protocol;
        else
            refuse("topology '" + limits::clipped(full_name) + "' has '" +
                   limits::clipped(setting) +
                   "'; its keys are channels=1 to channels=" + std::to_string(Channels::most) +
                   " and protocol=simple, protocol=ll or protocol=ll128, as in " +
                   std::string(name) + ",channels=8");
    }
    if (channels.count == 0 && !settings.empty())
        refuse("topology '" + limits::clipped(full_name) +
               "' has a protocol without channels; give both, as in " + std::string(name) +
               ",channels=8,protocol=ll");
    return channels;
}

std::string format_name(const std::string& name) {
    std::string plain = name;
    std::ranges::replace(plain, '/', ',');
    try {
        return parse_format(name).name();
    } catch (const std::invalid_argument&) {
        try {
            parse_block_format(plain);
            return name;
        } catch (const std::invalid_argument&) {  // the first message is more precise
        }
        throw;
    }
}

int group_of(const std::string& full_name, std::string_view form, std::string_view number) {
    const int group = parse_number<int>(number).value_or(0);
    if (group < 1)
        refuse("topology '" + limits::clipped(full_name) +
               "' needs a group size of 1 to 2147483647, as in " + std::string(form) + ":4");
    return group;
}

}  // namespace apscope::detail
