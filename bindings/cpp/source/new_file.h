// Files that appear complete or not at all: they are written under hidden names, synced to the
// disk, and renamed. Errors are std::runtime_error with the destination's name, unless a function's
// comment names another type.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <system_error>

#include "bindings/cpp/source/sentences.h"

namespace apscope {

// A written file's length, and its SHA-256 in hexadecimal.
struct Written {
    std::uintmax_t bytes;
    std::string sha256;
};
// Writes the bytes of a file to a stream.
using WriteBytes = std::function<void(std::ostream&)>;

// Writes a file that appears complete or not at all. Its bytes are on the disk when the function
// returns; its name is there after sync() of its folder. `name_of` gives the name in the path's
// folder if it depends on the bytes.
Written put_file(const std::filesystem::path& path, const WriteBytes& content,
                 const std::function<std::string(const Written&)>& name_of = {});

// Waits until a file's bytes, or the names in a folder, are on the disk.
void sync(const std::filesystem::path& path);

// Converts a system error of `work` to a std::runtime_error with the destination's name.
template <class Work>
auto named(const std::filesystem::path& destination, Work work) {
    try {
        return work();
    } catch (const std::system_error& error) {
        throw std::runtime_error(shown(destination) +
                                 " cannot be written: " + error.code().message());
    }
}

// Writes a file that must not exist yet, and syncs it; throws std::system_error.
Written write_new(const std::filesystem::path& path, const WriteBytes& content);
// As sync(), but throws std::system_error.
void sync_now(const std::filesystem::path& path);

}  // namespace apscope
