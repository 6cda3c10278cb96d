// Limits on inputs: files, names, specs. docs/limits.md lists these numbers. The limits of the
// Python package are in bindings/apscope/_limits.py, which imports the shared ones from here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace apscope::detail::limits {

// The deepest nesting of schemes in a spec, by parentheses: the parser recurses once per level.
inline constexpr std::size_t spec_depth = 64;
inline constexpr std::size_t spec_length = 1'000'000;  // bytes of a spec
// Bytes of a regular expression. It is large because hybrid.exactly writes the names of many
// tensors into one expression.
inline constexpr std::size_t pattern_length = 100'000;
// Bytes of memory that one compiled regular expression may use.
inline constexpr std::int64_t pattern_memory = 1 << 26;
inline constexpr std::size_t name_length = 4'096;  // bytes of a tensor's name in a manifest
inline constexpr int json_depth = 64;  // levels of nesting; printing uses stack for each level
// The longest header of a safetensors file, in bytes. The safetensors library has the same limit,
// so a larger length means a damaged file.
inline constexpr std::uint64_t safetensors_header = 100'000'000;
inline constexpr std::uint64_t manifest_length = 1'000'000'000;  // bytes of a manifest.json
inline constexpr std::int64_t workers = 1'000'000;               // workers in a manifest
inline constexpr std::size_t quoted = 100;  // bytes of a user's text that a message quotes

// The text to quote in a message: a text of more than `quoted` bytes is cut between two characters
// and ends in "...".
inline std::string clipped(std::string_view text) {
    if (text.size() <= quoted) return std::string(text);
    std::size_t end = quoted - 3;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return std::string(text.substr(0, end)) + "...";
}

}  // namespace apscope::detail::limits
