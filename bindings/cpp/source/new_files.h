// Files and folders that appear complete or not at all: they are written under hidden names, synced
// to the disk, and renamed. The hidden names have the Python package's pattern, and that package
// removes such files of a killed process. Errors are std::runtime_error with the destination's
// name, unless a function's comment names another type.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "bindings/cpp/source/json_text.h"

namespace apscope {

// A hidden folder beside a destination, or inside it if the destination is a folder with files. The
// destructor removes it.
class NewFolder {
public:
    // Makes the hidden folder. `doing` names the operation, for readers of the hidden folder.
    NewFolder(const std::filesystem::path& destination, const std::string& doing);
    NewFolder(const NewFolder&) = delete;
    NewFolder& operator=(const NewFolder&) = delete;

    // The length of a written file, and its SHA-256 in hexadecimal.
    struct Written {
        std::uintmax_t bytes;
        std::string sha256;
    };
    // Writes a file of the new folder; `content` writes its bytes to a stream.
    Written write(const std::string& name, const std::function<void(std::ostream&)>& content);

    // Renames the new folder to the destination, which is absent or empty.
    void put_folder();
    // Moves the files into the existing destination. `all` has the names of all files that such a
    // folder may have: the destination's files with these names are replaced, or removed if this
    // object did not write them. The file `mark` is removed from the destination first, and its new
    // version is moved last.
    void put_files(const std::vector<std::string>& all, const std::string& mark);

private:
    // A folder that its destructor removes, if it has a path.
    struct Temporary {
        ~Temporary();
        std::filesystem::path path;
    };

    std::filesystem::path destination_, place_;
    Temporary hidden_;
};

// True if a NewFolder's move of files into the folder was interrupted: its hidden folder is there.
bool is_half_written(const std::filesystem::path& folder);

// The hidden name under which a file is written: .NAME.apscope- and eight hexadecimal digits.
std::string hidden_name(const std::string& name);

// The description of this process for others, as the Python package writes it.
Json this_process(const std::string& doing);

// Waits until a file's bytes, or the names in a folder, are on the disk. Throws std::system_error.
void sync(const std::filesystem::path& path);

// Writes a file that appears complete or not at all. Its bytes are on the disk when the function
// returns; its name is there after sync() of its folder.
NewFolder::Written put_file(const std::filesystem::path& path,
                            const std::function<void(std::ostream&)>& content);

}  // namespace apscope
