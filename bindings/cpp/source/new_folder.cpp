#include "bindings/cpp/source/new_folder.h"

#include <sys/stat.h>

#include <fstream>
#include <ostream>
#include <utility>

#include "bindings/cpp/source/hidden_names.h"

namespace apscope {
namespace {

namespace fs = std::filesystem;
using Move = std::pair<fs::path, fs::path>;  // from, to

// The file in a hidden folder that describes the process which writes there.
constexpr const char* mark_of_hidden = "apscope.json";

bool is_folder(const fs::path& path) {
    std::error_code ignored;
    return fs::is_directory(path, ignored);
}

// The path from the root, which ends with the name of a file or a folder. Links are not followed.
fs::path complete(const fs::path& path) {
    const fs::path place = fs::absolute(path).lexically_normal();
    return place.has_filename() ? place : place.parent_path();
}

// True if a folder is one that this user's processes made for a destination of this name.
bool is_ours(const fs::path& folder, const std::string& name) {
    struct stat about{};
    if (::lstat(folder.c_str(), &about) != 0 || !S_ISDIR(about.st_mode) ||
        about.st_uid != ::geteuid())
        return false;
    std::error_code ignored;
    if (fs::is_empty(folder, ignored)) return true;
    std::ifstream file(folder / mark_of_hidden, std::ios::binary);
    const Json mark = Json::parse(file, nullptr, false);
    // The mark has the name as JSON, in which bytes that are not UTF-8 are replaced.
    return mark.is_object() && mark.value("writes", Json()) == Json::parse(json_line(name));
}

// The hidden folders around a destination that its killed processes left.
std::vector<fs::path> left_behind(const fs::path& around, const std::string& name) {
    std::vector<fs::path> all;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(around, ignored))
        if (is_fresh_name(entry.path().filename().string(), name) && is_ours(entry.path(), name))
            all.push_back(entry.path());
    return all;
}

// Removes a hidden folder as far as possible, its mark last: what remains is still marked.
void remove_hidden(const fs::path& folder) {
    std::error_code ignored;
    for (const fs::path& part : {folder / "new", folder / "old", folder})
        fs::remove_all(part, ignored);
}

// Undoes the moves, the last first. Returns false after an error.
bool undo(const std::vector<Move>& moves) {
    std::error_code failed;
    for (auto move = moves.rbegin(); move != moves.rend() && !failed; ++move)
        fs::rename(move->second, move->first, failed);
    return !failed;
}

}  // namespace

NewFolder::NewFolder(const fs::path& destination, const std::string& doing)
    : destination_(destination), place_(complete(destination)), into_(is_folder(place_)),
      around_(into_ ? place_ : place_.parent_path()) {
    named(destination_, [&] {
        const std::string name = place_.filename().string();
        fs::create_directories(around_);
        lock_.emplace(around_ / lock_name(name), doing, destination_);
        const fs::path hidden = around_ / fresh_name(name);
        if (!fs::create_directory(hidden))
            throw std::system_error(std::make_error_code(std::errc::file_exists));
        hidden_.path = hidden;
        fs::permissions(hidden, fs::perms::owner_all);
        fs::create_directory(made());
        Json about = this_process(doing);
        about["writes"] = name;
        write_new(hidden / mark_of_hidden, [&](std::ostream& out) { out << json_line(about); });
    });
}

NewFolder::Temporary::~Temporary() {
    if (!path.empty()) remove_hidden(path);
}

bool is_half_written(const fs::path& folder) {
    const fs::path place = complete(folder);
    return !left_behind(place, place.filename().string()).empty();
}

Written NewFolder::write(const std::string& name, const WriteBytes& content) {
    return named(destination_, [&] { return write_new(made() / name, content); });
}

void NewFolder::put(const std::vector<std::string>& all, const std::string& mark) {
    named(destination_, [&] {
        sync_now(made());
        if (into_) put_files(all, mark);
        else {
            fs::rename(made(), place_);
            sync_now(around_);
        }
        for (const fs::path& left : left_behind(around_, place_.filename().string()))
            remove_hidden(left);
    });
}

void NewFolder::put_files(const std::vector<std::string>& all, const std::string& mark) {
    const fs::path old = hidden_.path / "old";
    fs::create_directory(old);
    std::vector<Move> done;
    const auto move = [&](const std::string& name, const fs::path& from, const fs::path& to) {
        const fs::file_status about = fs::symlink_status(from / name);
        if (!fs::exists(about)) return;
        if (fs::is_directory(about))
            throw std::runtime_error(shown(destination_ / name) +
                                     " is a folder; remove it, or give another destination");
        fs::rename(from / name, to / name);
        done.emplace_back(from / name, to / name);
    };
    try {
        move(mark, place_, old);
        sync_now(place_);
        for (const std::string& name : all) {
            if (name == mark) continue;
            move(name, place_, old);
            move(name, made(), place_);
        }
        sync_now(place_);
        move(mark, made(), place_);
        sync_now(place_);
    } catch (...) {
        if (!undo(done)) hidden_.path.clear();  // it says that the destination is half written
        throw;
    }
}

}  // namespace apscope
