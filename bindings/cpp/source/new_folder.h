// Folders that appear complete or not at all: they are written under hidden names, synced to the
// disk, and renamed, while the destination is locked. Errors are std::runtime_error with the
// destination's name, unless a function's comment names another type.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cpp/source/lock.h"
#include "bindings/cpp/source/new_file.h"

namespace apscope {

// A hidden folder beside a destination, or inside it if the destination is a folder. The destructor
// removes it.
class NewFolder {
public:
    // Takes the destination's lock, for the lifetime of the object, and makes the hidden folder.
    // `doing` names the operation for other processes. Throws apscope::error if another process
    // holds the lock.
    NewFolder(const std::filesystem::path& destination, const std::string& doing);
    NewFolder(const NewFolder&) = delete;
    NewFolder& operator=(const NewFolder&) = delete;

    // Writes a file of the new folder.
    Written write(const std::string& name, const WriteBytes& content);

    // Renames the new folder to the destination, or moves its files into the destination that was a
    // folder. Then `all` has the names of all files that such a folder may have: the destination's
    // files with these names are replaced, or removed if this object did not write them. The file
    // `mark` is removed from the destination first, and its new version is moved last: without it
    // the other files are invalid. An error restores the old files. Hidden folders that killed
    // processes left of the destination are removed.
    void put(const std::vector<std::string>& all, const std::string& mark);

private:
    // A hidden folder that its destructor removes, if it has a path.
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

}  // namespace apscope
