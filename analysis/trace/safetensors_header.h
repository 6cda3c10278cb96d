// The JSON header of a safetensors file: every tensor's dtype, shape and byte range, checked. The
// ranges must cover the file's data exactly: no overlap, no gap, nothing after them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace apscope::detail {

struct SafetensorsEntry {
    std::string dtype;                // in the header's spelling: "F32"
    std::vector<std::int64_t> shape;  // row-major; empty for a scalar
    std::size_t size = 0;             // number of elements
    // The tensor's range of bytes, counted from the end of the header.
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

using SafetensorsTensors = std::map<std::string, SafetensorsEntry>;

struct SafetensorsHeader {
    std::shared_ptr<const SafetensorsTensors> tensors;
    std::map<std::string, std::string> metadata;
};

// `data_length` is the number of bytes after the header. Throws std::invalid_argument, in one
// sentence that names the file and the field.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_length,
                                           const std::filesystem::path& path);

// The last few headers that were read. The headers of a trace's files differ only in their
// metadata; the descriptions of the tensors are the same bytes, so they are parsed once. Safe to
// call from several threads.
class SafetensorsHeaders {
public:
    // Does the same as parse_safetensors_header().
    SafetensorsHeader header(std::string_view text, std::uint64_t data_length,
                             const std::filesystem::path& path);

private:
    struct Seen {
        std::string tensors_text;
        std::uint64_t data_length;
        SafetensorsHeader header;
    };
    std::mutex mutex_;
    std::vector<Seen> seen_;
};

}  // namespace apscope::detail
