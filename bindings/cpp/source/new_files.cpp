#include "bindings/cpp/source/new_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <ostream>
#include <random>
#include <stdexcept>
#include <streambuf>
#include <string_view>

#include "bindings/cpp/source/sentences.h"
#include "bindings/cpp/source/sha256.h"

namespace apscope {
namespace {

namespace fs = std::filesystem;

// The file in a hidden folder that describes the process which writes there.
constexpr const char* mark_of_hidden = "apscope.json";

// Converts a system error of `work` to a std::runtime_error with the destination's name.
template <class Work>
auto named(const fs::path& destination, Work work) {
    try {
        return work();
    } catch (const std::system_error& error) {
        throw std::runtime_error(shown(destination) +
                                 " cannot be written: " + error.code().message());
    }
}

// A new file, opened exclusively, whose bytes are counted and hashed.
class NewFile : public std::streambuf {
public:
    explicit NewFile(const fs::path& path)
        : file_(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666) {}
    Written end() {
        flush();
        if (::fsync(file_.number()) != 0) throw_system_error();
        file_.close();
        return {bytes_, hash_.digest()};
    }

protected:
    int_type overflow(int_type c) override {
        if (!traits_type::eq_int_type(c, traits_type::eof())) {
            const char one = traits_type::to_char_type(c);
            xsputn(&one, 1);
        }
        return traits_type::not_eof(c);
    }
    std::streamsize xsputn(const char* bytes, std::streamsize count) override {
        constexpr std::size_t most = 1 << 20;
        const std::string_view more(bytes, static_cast<std::size_t>(count));
        if (held_.size() + more.size() >= most) flush();
        if (more.size() >= most) put(more);
        else held_ += more;
        return count;
    }

private:
    void flush() {
        put(held_);
        held_.clear();
    }
    void put(std::string_view bytes) {
        hash_.add(bytes);
        bytes_ += bytes.size();
        while (!bytes.empty()) {
            const ::ssize_t done = ::write(file_.number(), bytes.data(), bytes.size());
            if (done < 0 && errno == EINTR) continue;
            if (done < 0) throw_system_error();
            bytes.remove_prefix(static_cast<std::size_t>(done));
        }
    }

    Descriptor file_;
    std::string held_;
    Sha256 hash_;
    std::uintmax_t bytes_ = 0;
};

Written write_new(const fs::path& path, const WriteBytes& content) {
    NewFile file(path);
    std::ostream stream(&file);
    stream.exceptions(std::ios::badbit);  // the stream rethrows the exceptions of `file`
    content(stream);
    return file.end();
}

// As sync(), but throws std::system_error.
void sync_now(const fs::path& path) {
    const Descriptor file(path, O_RDONLY);
    // Some file systems cannot sync a folder.
    if (::fsync(file.number()) != 0 && errno != EINVAL) throw_system_error();
}

bool is_folder(const fs::path& path) {
    std::error_code ignored;
    return fs::is_directory(path, ignored);
}

// The path from the root, which ends with the name of a file or a folder. Links are not followed.
fs::path complete(const fs::path& path) {
    const fs::path place = fs::absolute(path).lexically_normal();
    return place.has_filename() ? place : place.parent_path();
}

// The beginning of a destination's hidden names.
std::string stem(const std::string& name) { return "." + name.substr(0, 100) + ".apscope-"; }

// A new hidden name: .NAME.apscope- and eight hexadecimal digits.
std::string hidden_name(const std::string& name) {
    std::random_device random;
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(random()) & 0xffffffffu);
    return stem(name) + digits;
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
    return mark.is_object() && mark.value("writes", Json()) == Json(name);
}

// The hidden folders around a destination that its killed processes left.
std::vector<fs::path> left_behind(const fs::path& around, const std::string& name) {
    std::vector<fs::path> all;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(around, ignored)) {
        const std::string hidden = entry.path().filename().string();
        const bool fits =
            hidden.starts_with(stem(name)) && hidden.size() == stem(name).size() + 8 &&
            hidden.find_first_not_of("0123456789abcdef", stem(name).size()) == std::string::npos;
        if (fits && is_ours(entry.path(), name)) all.push_back(entry.path());
    }
    return all;
}

}  // namespace

std::string lock_name(const std::string& name) { return stem(name) + "lock"; }

void sync(const fs::path& path) {
    named(path, [&] { sync_now(path); });
}

Written put_file(const fs::path& path, const WriteBytes& content,
                 const std::function<std::string(const Written&)>& name_of) {
    return named(path, [&] {
        const fs::path hidden = path.parent_path() / hidden_name(path.filename().string());
        try {
            const Written written = write_new(hidden, content);
            fs::rename(hidden, name_of ? path.parent_path() / name_of(written) : path);
            return written;
        } catch (...) {
            std::error_code ignored;
            fs::remove(hidden, ignored);
            throw;
        }
    });
}

NewFolder::NewFolder(const fs::path& destination, const std::string& doing)
    : destination_(destination), place_(complete(destination)), into_(is_folder(place_)),
      around_(into_ ? place_ : place_.parent_path()) {
    named(destination_, [&] {
        const std::string name = place_.filename().string();
        fs::create_directories(around_);
        lock_.emplace(around_ / lock_name(name), doing, destination_);
        const fs::path hidden = around_ / hidden_name(name);
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
    std::error_code ignored;
    fs::remove_all(path, ignored);
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
        for (const fs::path& left : left_behind(around_, place_.filename().string())) {
            std::error_code ignored;
            fs::remove_all(left, ignored);
        }
    });
}

void NewFolder::put_files(const std::vector<std::string>& all, const std::string& mark) {
    fs::remove(place_ / mark);
    try {
        sync_now(place_);
        for (const std::string& name : all) {
            if (name == mark) continue;
            if (fs::exists(made() / name)) fs::rename(made() / name, place_ / name);
            else fs::remove(place_ / name);
        }
        sync_now(place_);
        fs::rename(made() / mark, place_ / mark);
        sync_now(place_);
    } catch (...) {
        hidden_.path.clear();  // without it, the files would be those of someone else
        throw;
    }
}

}  // namespace apscope
