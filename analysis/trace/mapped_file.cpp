#include "analysis/trace/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "analysis/trace/mapped_ranges.h"
#include "analysis/trace/one_line.h"
#include "core/error.h"

namespace apscope::detail {
namespace {

// A smaller file is read: mapping its pages would take longer than copying.
constexpr std::size_t smallest_mapped = std::size_t{1} << 16;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what,
                         ErrorKind kind = ErrorKind::unreadable_file) {
    throw error(one_line(path.string() + what), kind);
}

[[noreturn]] void fail(const std::filesystem::path& path, int code) {
    throw std::system_error(code, std::generic_category(),
                            one_line(path.string()) + " cannot be read");
}

void read_whole(int descriptor, void* into, std::size_t length, const std::filesystem::path& path) {
    for (std::size_t done = 0; done < length;) {
        const ::ssize_t got =
            ::read(descriptor, static_cast<std::byte*>(into) + done, length - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail(path, errno);
        if (got == 0)
            refuse(path, ": truncated while it was read: " + std::to_string(done) + " bytes of " +
                             std::to_string(length));
        done += static_cast<std::size_t>(got);
    }
}

}  // namespace

FileStamp::FileStamp(const struct ::stat& status)
    : device(status.st_dev), inode(status.st_ino), size(static_cast<std::uint64_t>(status.st_size)),
      seconds(status.st_mtim.tv_sec), nanoseconds(status.st_mtim.tv_nsec) {}

void check_file_unchanged(const std::filesystem::path& path, const FileState& state) {
    struct ::stat now{};
    const bool there = ::stat(path.c_str(), &now) == 0;
    if (there && FileStamp(now) == state.stamp && !state.cut.load(std::memory_order_relaxed))
        return;
    refuse(path,
           std::string(there ? " changed" : " was removed") +
               " while it was read; open the trace and repeat this when nothing writes to it",
           there ? ErrorKind::unreadable_file : ErrorKind::missing_file);
}

MappedFile::MappedFile(const std::filesystem::path& path, std::shared_ptr<FileState> known)
    : path_(path), state_(std::move(known)) {
    // O_NONBLOCK: opening does not wait if the path is a pipe.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) fail(path, errno);
    const auto close = [](const int* opened) { ::close(*opened); };
    const std::unique_ptr<const int, decltype(close)> closer(&descriptor, close);
    struct ::stat status{};
    if (::fstat(descriptor, &status) != 0) fail(path, errno);
    if (!S_ISREG(status.st_mode)) refuse(path, ": not a regular file");
    if (state_ != nullptr) {
        check_file_unchanged(path, *state_);
    } else {
        state_ = std::make_shared<FileState>();
        state_->stamp = FileStamp(status);
    }
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ < smallest_mapped) {
        small_.resize((size_ + sizeof(double) - 1) / sizeof(double));
        read_whole(descriptor, small_.data(), size_, path);
        data_ = reinterpret_cast<const std::byte*>(small_.data());
        return;
    }
    void* const mapping = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
    if (mapping == MAP_FAILED) fail(path, errno);
    data_ = static_cast<const std::byte*>(mapping);
    remember_range(mapping, size_, &state_->cut);
}

MappedFile::~MappedFile() {
    if (!mapped()) return;
    forget_range(data_);
    ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop_pages(const std::byte* begin, std::size_t length) const {
    if (!mapped()) return;
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t before = (page - reinterpret_cast<std::uintptr_t>(begin) % page) %
                               page;  // bytes from `begin` to the next start of a page
    if (length < before + page) return;
    madvise(const_cast<std::byte*>(begin) + before, (length - before) / page * page, MADV_DONTNEED);
}

}  // namespace apscope::detail
