// One safetensors file, memory-mapped and checked before anything in it is used.
//
// A safetensors file is an 8-byte little-endian header length, a JSON header that gives every
// tensor's dtype, shape and byte range, and the bytes. The ranges must cover the rest of the file
// exactly: no overlap, no hole, nothing behind them. Opening checks all of that; every failure is
// one sentence that names the file and the field.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace apscope {

// The format's own limit; a header beyond it is a damaged length, not a big file.
inline constexpr std::uint64_t max_safetensors_header = 100'000'000;

// fp32 values that somebody else owns. Copies are cheap; the values stay valid, whatever happens
// to the file object or the trace they came from, as long as one copy lives.
struct TensorView {
    std::span<const float> values;
    std::vector<std::int64_t> shape;
    std::shared_ptr<const void> owner;
};

class SafetensorsFile : public std::enable_shared_from_this<SafetensorsFile> {
public:
    struct Entry {
        std::string dtype;                // as the header spells it: "F32"
        std::vector<std::int64_t> shape;  // row-major; empty for a scalar
        std::size_t size = 0;             // elements
        std::uint64_t begin = 0;          // bytes, from the end of the header
        std::uint64_t end = 0;
    };

    // Throws std::invalid_argument for a malformed file, std::system_error for one that cannot be
    // opened. The file must not shrink while it is open.
    static std::shared_ptr<const SafetensorsFile> open(const std::filesystem::path& path);
    ~SafetensorsFile();
    SafetensorsFile(const SafetensorsFile&) = delete;
    SafetensorsFile& operator=(const SafetensorsFile&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::size_t length() const { return length_; }  // of the file, in bytes
    const std::map<std::string, Entry>& entries() const { return entries_; }
    const std::map<std::string, std::string>& metadata() const { return metadata_; }

    // The tensor's bytes as they lie in the file; valid while this object lives. Throws
    // std::invalid_argument for a tensor that is not there.
    std::span<const std::byte> bytes(const std::string& name) const;

    // The tensor as fp32: F32 without a copy (where its bytes are aligned); F16 and BF16 widened,
    // which is exact; F64 only where every value is an fp32 value. Throws std::invalid_argument
    // for other dtypes and for a tensor that is not there. When the last copy of a view goes, its
    // pages are dropped from this process's memory, those of small views some time later, so that
    // at most some 256 KiB of a file stay. Safe to call from several threads.
    TensorView read(const std::string& name) const;

private:
    SafetensorsFile() = default;
    void parse();
    const Entry& entry(const std::string& name) const;
    void count_small_view(std::size_t length) const;

    std::filesystem::path path_;
    const std::byte* mapping_ = nullptr;
    std::size_t length_ = 0;
    const std::byte* data_ = nullptr;  // behind the header
    std::map<std::string, Entry> entries_;
    std::map<std::string, std::string> metadata_;
    mutable std::atomic<std::size_t> small_views_{0};  // bytes of small views gone since pages were dropped
};

}  // namespace apscope
