// A file descriptor of the system, which is closed with its object.
#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace apscope {

[[noreturn]] inline void throw_system_error() {
    throw std::system_error(errno, std::generic_category());
}

class Descriptor {
public:
    // Opens a file or a folder; throws std::system_error.
    explicit Descriptor(const std::filesystem::path& path, int flags, ::mode_t mode = 0)
        : number_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {
        if (number_ < 0) throw_system_error();
    }
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    int number() const { return number_; }
    // Closes it now; throws std::system_error.
    void close() {
        if (::close(std::exchange(number_, -1)) != 0) throw_system_error();
    }

private:
    int number_;
};

}  // namespace apscope
