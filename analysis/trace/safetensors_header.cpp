#include "analysis/trace/safetensors_header.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "analysis/trace/one_line.h"
#include "analysis/trace/strict_json.h"
#include "core/error.h"
#include "core/limits.h"

namespace apscope::detail {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
    throw error(one_line(path.string() + ": " + what), ErrorKind::unreadable_file);
}

int bits_of(std::string_view dtype) {
    struct Known {
        std::string_view name;
        int bits;
    };
    static constexpr Known table[] = {
        {"F32", 32},    {"F16", 16},    {"BF16", 16},       {"F64", 64},        {"I64", 64},
        {"I32", 32},    {"I16", 16},    {"I8", 8},          {"U64", 64},        {"U32", 32},
        {"U16", 16},    {"U8", 8},      {"BOOL", 8},        {"C64", 64},        {"F8_E4M3", 8},
        {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6},
        {"F6_E3M2", 6}, {"F4", 4},
    };
    for (const auto& known : table)
        if (known.name == dtype) return known.bits;
    return 0;
}

std::uint64_t natural(const nlohmann::json& value, const std::filesystem::path& path,
                      const std::string& field) {
    if (!value.is_number_unsigned())
        refuse(path, field + " is " + limits::clipped(value.dump()) +
                         "; it must be an integer of at least 0");
    return value.get<std::uint64_t>();
}

SafetensorsEntry parse_entry(const nlohmann::json& json, const std::filesystem::path& path,
                             const std::string& tensor) {
    const std::string prefix = "tensor '" + limits::clipped(tensor) + "': ";
    if (!json.is_object()) refuse(path, prefix + "its header entry is not an object");
    for (const auto& [key, value] : json.items())
        if (key != "dtype" && key != "shape" && key != "data_offsets")
            refuse(path, prefix + "unknown field '" + limits::clipped(key) +
                             "'; a tensor has dtype, shape and data_offsets");
    if (!json.contains("dtype") || !json["dtype"].is_string())
        refuse(path, prefix + "dtype is missing");
    if (!json.contains("shape") || !json["shape"].is_array())
        refuse(path, prefix + "shape is missing");
    if (!json.contains("data_offsets") || !json["data_offsets"].is_array() ||
        json["data_offsets"].size() != 2)
        refuse(path, prefix + "data_offsets must be two numbers");

    SafetensorsEntry entry;
    entry.dtype = json["dtype"].get<std::string>();
    entry.begin = natural(json["data_offsets"][0], path, prefix + "data_offsets[0]");
    entry.end = natural(json["data_offsets"][1], path, prefix + "data_offsets[1]");
    if (entry.begin > entry.end) refuse(path, prefix + "data_offsets end before they begin");

    const int bits = bits_of(entry.dtype);
    if (bits == 0) refuse(path, prefix + "unknown dtype '" + limits::clipped(entry.dtype) + "'");
    std::uint64_t elements = 1;
    bool overflows = false;
    for (const auto& dimension : json["shape"]) {
        const std::uint64_t extent = natural(dimension, path, prefix + "shape");
        overflows |= extent > std::uint64_t{INT64_MAX};
        overflows |= __builtin_mul_overflow(elements, extent, &elements);
        entry.shape.push_back(static_cast<std::int64_t>(extent));
    }
    std::uint64_t total_bits = 0;
    overflows |= __builtin_mul_overflow(elements, static_cast<std::uint64_t>(bits), &total_bits);
    if (overflows)
        refuse(path, prefix + "shape " + limits::clipped(json["shape"].dump()) +
                         " has more elements than 64 bits count");
    if (total_bits % 8 != 0 || total_bits / 8 != entry.end - entry.begin)
        refuse(path, prefix + "shape " + limits::clipped(json["shape"].dump()) + " of " +
                         entry.dtype + " needs " + std::to_string(total_bits / 8) +
                         " bytes, but data_offsets give " +
                         std::to_string(entry.end - entry.begin));
    entry.size = elements;
    return entry;
}

std::map<std::string, std::string> parse_metadata(const nlohmann::json& json,
                                                  const std::filesystem::path& path) {
    if (!json.is_object()) refuse(path, "__metadata__ must be an object of strings");
    std::map<std::string, std::string> metadata;
    for (const auto& [key, value] : json.items()) {
        if (!value.is_string())
            refuse(path, "__metadata__['" + limits::clipped(key) + "'] must be a string");
        metadata[key] = value.get<std::string>();
    }
    return metadata;
}

// A header's text before its tensors, and the rest:
//
//      {"__metadata__":{"step":"0","worker":"3"}  |  ,"conv.weight":{...}}
// If the first part is not a JSON object, because a string in it has a brace, all of the text is in
// `tensors`.
struct Split {
    std::string_view metadata, tensors;
};
Split split(std::string_view text) {
    constexpr std::string_view head = R"({"__metadata__":)";
    if (!text.starts_with(head)) return {{}, text};
    const std::size_t end = text.find('}') + 1;  // 0 if there is no brace
    if (end == 0 || !text.substr(end).starts_with(',') ||
        !nlohmann::json::accept(text.substr(head.size(), end - head.size())))
        return {{}, text};
    return {text.substr(head.size(), end - head.size()), text.substr(end)};
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_length,
                                           const std::filesystem::path& path) {
    if (text.empty() || text.front() != '{') refuse(path, "the header does not begin with '{'");
    const auto json = parse_strict_json(text, one_line(path.string()) + ": the header");
    SafetensorsHeader header;
    std::vector<std::pair<std::string, SafetensorsEntry>> ordered;
    for (const auto& [name, value] : json.items()) {
        if (name == "__metadata__") header.metadata = parse_metadata(value, path);
        else ordered.emplace_back(name, parse_entry(value, path, name));
    }
    std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.begin, a.second.end) < std::pair(b.second.begin, b.second.end);
    });
    std::uint64_t covered = 0;
    for (const auto& [name, entry] : ordered) {
        if (entry.end > data_length)
            refuse(path, "truncated: tensor '" + limits::clipped(name) + "' ends at byte " +
                             std::to_string(entry.end) + " of the data, which has " +
                             std::to_string(data_length));
        if (entry.begin < covered)
            refuse(path, "data_offsets of tensor '" + limits::clipped(name) +
                             "' overlap the tensor before it");
        if (entry.begin > covered)
            refuse(path, "a gap of " + std::to_string(entry.begin - covered) +
                             " bytes before the data_offsets of tensor '" + limits::clipped(name) +
                             "'");
        covered = entry.end;
    }
    if (covered != data_length)
        refuse(path, std::to_string(data_length - covered) +
                         " bytes after the last tensor do not belong to any");
    header.tensors = std::make_shared<const SafetensorsTensors>(
        std::make_move_iterator(ordered.begin()), std::make_move_iterator(ordered.end()));
    return header;
}

SafetensorsHeader SafetensorsHeaders::header(std::string_view text, std::uint64_t data_length,
                                             const std::filesystem::path& path) {
    constexpr std::size_t max_headers = 4, max_length = std::size_t{1} << 20;
    const Split parts = split(text);
    const auto find = [&] {
        return std::find_if(seen_.begin(), seen_.end(), [&](const Seen& s) {
            return s.data_length == data_length && s.tensors_text == parts.tensors;
        });
    };
    {
        const std::lock_guard lock(mutex_);
        if (const auto match = find(); match != seen_.end()) {
            if (parts.metadata.empty()) return match->header;
            return {match->header.tensors,
                    parse_metadata(
                        parse_strict_json(parts.metadata, one_line(path.string()) + ": the header"),
                        path)};
        }
    }
    SafetensorsHeader header = parse_safetensors_header(text, data_length, path);
    const std::lock_guard lock(mutex_);
    if (text.size() > max_length || find() != seen_.end()) return header;
    if (seen_.size() == max_headers) seen_.pop_back();
    seen_.insert(seen_.begin(), {std::string(parts.tensors), data_length, header});
    return header;
}

}  // namespace apscope::detail
