// Files and folders that appear whole or not at all: they are written under hidden names, put on
// the disk, and renamed. The names are those of the Python package, which removes what a killed
// process leaves. Errors are std::runtime_error with the destination's name.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace apscope {

// A hidden folder beside a destination, or inside it if the destination is a folder with files. It
// is removed with this object.
class NewFolder {
public:
    NewFolder(const std::filesystem::path& destination, const std::string& doing);
    ~NewFolder();
    NewFolder(const NewFolder&) = delete;
    NewFolder& operator=(const NewFolder&) = delete;

    // Writes a file of the folder; returns its length and its SHA-256.
    struct Written {
        std::uintmax_t bytes;
        std::string sha256;
    };
    Written write(const std::string& name, const std::function<void(std::ostream&)>& content);

    // Renames the new folder to the destination, which is absent or empty.
    void put_folder();
    // Moves the files into the existing destination. `mark` is removed from there first and moved
    // last; files with other names of `all` that are not written are removed.
    void put_files(const std::vector<std::string>& all, const std::string& mark);

private:
    std::filesystem::path destination_, place_, hidden_;
};

// The hidden name under which a file is written: .NAME.apscope- and eight hexadecimal digits.
std::string hidden_name(const std::string& name);

// Waits until a file, or the names in a folder, are on the disk. Throws std::system_error.
void sync(const std::filesystem::path& path);

// Writes a whole file or nothing; it is on the disk afterwards, its name is after sync() of its
// folder. Returns its length and its SHA-256.
NewFolder::Written put_file(const std::filesystem::path& path,
                            const std::function<void(std::ostream&)>& content);

}  // namespace apscope
