// One safetensors file, memory-mapped (a small one is read) and checked before anything in it is
// used.
//
// A safetensors file is an 8-byte little-endian header length, a JSON header (safetensors_header.h)
// and the tensors' bytes. Opening checks all of it; every failure is one sentence that names the
// file and the field.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/trace/mapped_file.h"
#include "analysis/trace/safetensors_header.h"

namespace apscope::detail {

// A view of fp32 values. Copies are cheap; the values stay valid, independent of the file object or
// the trace, as long as one copy lives.
struct TensorView {
    std::span<const float> values;
    std::vector<std::int64_t> shape;
    std::shared_ptr<const void> owner;
};

class SafetensorsFile : public std::enable_shared_from_this<SafetensorsFile> {
public:
    // Throws std::invalid_argument for a malformed file, std::system_error for one that cannot be
    // opened. A header in `seen` is not parsed again; the file must be in the state of `known`.
    static std::shared_ptr<const SafetensorsFile> open(const std::filesystem::path& path,
                                                       SafetensorsHeaders* seen = nullptr,
                                                       std::shared_ptr<FileState> known = nullptr);

    const std::filesystem::path& path() const { return file_.path(); }
    const std::shared_ptr<FileState>& state() const { return file_.state(); }
    std::size_t length() const { return file_.size(); }  // bytes of the file
    const std::map<std::string, SafetensorsEntry>& entries() const { return *header_.tensors; }
    const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

    // The tensor's bytes in the file; valid while this object lives. Throws std::invalid_argument
    // for a missing tensor.
    std::span<const std::byte> bytes(const std::string& name) const;

    // The tensor as fp32. F32 is not copied if its bytes are aligned. F16 and BF16 are widened,
    // which is exact. F64 is converted only if every value is an fp32 value. Throws
    // std::invalid_argument for other dtypes and for a missing tensor. When the last copy of a
    // large view is destroyed, its pages are released; small views release theirs together, so that
    // at most about 256 KiB of a file stay in memory. Safe to call from several threads.
    TensorView read(const std::string& name) const;

private:
    SafetensorsFile(const std::filesystem::path& path, std::shared_ptr<FileState> known)
        : file_(path, std::move(known)) {}
    void parse(SafetensorsHeaders* seen);
    const SafetensorsEntry& entry(const std::string& name) const;
    void count_small_view(std::size_t length) const;

    MappedFile file_;
    const std::byte* data_ = nullptr;  // begins after the header
    SafetensorsHeader header_;
    // Bytes of the small views that were destroyed after pages were last released.
    mutable std::atomic<std::size_t> small_views_{0};
};

}  // namespace apscope::detail
