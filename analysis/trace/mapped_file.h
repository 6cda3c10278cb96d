// A file in memory: large files are mapped, small files are read. If another program truncates a
// mapped file, the missing part reads as zeros, through the handler of mapped_ranges.h; without it,
// the system would end the process with SIGBUS. check_file_unchanged() throws if a file was changed
// or truncated.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace apscope::detail {

// Identifies a file and its state.
struct FileStamp {
    std::uint64_t device = 0, inode = 0, size = 0;
    std::int64_t seconds = 0, nanoseconds = 0;  // time of its last change

    FileStamp() = default;
    explicit FileStamp(const struct ::stat& status);
    bool operator==(const FileStamp&) const = default;
};

// The state of a file when it was first opened. It outlives all mappings of the file.
struct FileState {
    FileStamp stamp;
    std::atomic<bool> cut{false};  // true once a missing part of the file was read
};

// Throws std::invalid_argument unless the file at `path` is the opened one, unchanged.
void check_file_unchanged(const std::filesystem::path& path, const FileState& state);

class MappedFile {
public:
    // Throws std::invalid_argument if `path` is not a regular file, or not the file of `known`, and
    // std::system_error if the file cannot be opened.
    explicit MappedFile(const std::filesystem::path& path,
                        std::shared_ptr<FileState> known = nullptr);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    const std::filesystem::path& path() const { return path_; }
    const std::shared_ptr<FileState>& state() const { return state_; }
    const std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }
    bool mapped() const { return small_.empty() && size_ > 0; }
    // Releases the memory of the pages that lie completely in this range. The next read loads them
    // again.
    void drop_pages(const std::byte* begin, std::size_t length) const;

private:
    std::filesystem::path path_;
    std::shared_ptr<FileState> state_;
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::vector<double> small_;  // a small file; doubles, to be aligned for any tensor
};

}  // namespace apscope::detail
