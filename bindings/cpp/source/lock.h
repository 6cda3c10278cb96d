// The Python package's lock of a destination, which one process at a time holds.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "bindings/cpp/source/descriptor.h"
#include "bindings/cpp/source/json_text.h"

namespace apscope {

// A locked file, whose text names the process that locked it. The destructor removes the file.
class Lock {
public:
    // Takes the lock at `path`. `doing` names the operation for other processes, and `what` the
    // destination in errors: std::invalid_argument if another process holds the lock,
    // std::runtime_error if the file cannot be made.
    Lock(std::filesystem::path path, const std::string& doing, const std::filesystem::path& what);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

    // True if the path still names the locked file. If it names another, another process may have
    // locked that one.
    bool is_held() const;

private:
    std::filesystem::path path_;
    std::optional<Descriptor> file_;
};

// The description of this process for others, as the Python package writes it.
Json this_process(const std::string& doing);

}  // namespace apscope
