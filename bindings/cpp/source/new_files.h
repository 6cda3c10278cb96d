// Files and folders that appear complete or not at all: they are written under hidden names, synced
// to the disk, and renamed. Hidden names and locks are the Python package's, which removes such
// files of a killed process. Errors are std::runtime_error with the destination's name, unless a
// function's comment names another type.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cpp/source/lock.h"

namespace apscope {

// A written file's length, and its SHA-256 in hexadecimal.
struct Written {
    std::uintmax_t bytes;
    std::string sha256;
};
// Writes the bytes of a file to a stream.
using WriteBytes = std::function<void(std::ostream&)>;

// A hidden folder beside a destination, or inside it if the destination is a folder. The destructor
// removes it.
class NewFolder {
public:
    // Takes the destination's lock, for the lifetime of the object, and makes the hidden folder.
    // `doing` names the operation for other processes. Throws std::invalid_argument if another
    // process holds the lock.
    NewFolder(const std::filesystem::path& destination, const std::string& doing);
    NewFolder(const NewFolder&) = delete;
    NewFolder& operator=(const NewFolder&) = delete;

    // Writes a file of the new folder.
    Written write(const std::string& name, const WriteBytes& content);

    // Renames the new folder to the destination, or moves its files into the destination that was a
    // folder. Then `all` has the names of all files that such a folder may have: the destination's
    // files with these names are replaced, or removed if this object did not write them. The file
    // `mark` is removed from the destination first, and its new version is moved last. After an
    // error in between, the destination has no mark, and the hidden folder stays: is_half_written.
    // Hidden folders that killed processes left of the destination are removed.
    void put(const std::vector<std::string>& all, const std::string& mark);

private:
    // A folder that its destructor removes, if it has a path.
    struct Temporary {
        ~Temporary();
        std::filesystem::path path;
    };

    void put_files(const std::vector<std::string>& all, const std::string& mark);
    std::filesystem::path made() const { return hidden_.path / "new"; }

    std::filesystem::path destination_, place_;
    bool into_;                     // the destination is a folder
    std::filesystem::path around_;  // the folder of the hidden one
    std::optional<Lock> lock_;
    Temporary hidden_;
};

// True if a NewFolder's move of files into the folder was interrupted: its hidden folder is there.
bool is_half_written(const std::filesystem::path& folder);

// The name of a destination's lock, in the same folder or inside it.
std::string lock_name(const std::string& name);

// Waits until a file's bytes, or the names in a folder, are on the disk.
void sync(const std::filesystem::path& path);

// Writes a file that appears complete or not at all. Its bytes are on the disk when the function
// returns; its name is there after sync() of its folder. `name_of` gives the name in the path's
// folder if it depends on the bytes.
Written put_file(const std::filesystem::path& path, const WriteBytes& content,
                 const std::function<std::string(const Written&)>& name_of = {});

}  // namespace apscope
