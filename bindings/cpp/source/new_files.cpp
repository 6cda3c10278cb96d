#include "bindings/cpp/source/new_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <ostream>
#include <random>
#include <stdexcept>
#include <streambuf>
#include <system_error>
#include <utility>

#include "bindings/cpp/source/sha256.h"

namespace apscope {
namespace {

namespace fs = std::filesystem;

// The file in a hidden folder that describes the process which writes there.
constexpr const char* mark_of_hidden = "apscope.json";

[[noreturn]] void fail(const fs::path& path, const std::error_code& code) {
    throw std::runtime_error(path.string() + " cannot be written: " + code.message());
}
[[noreturn]] void fail(const fs::path& path) { fail(path, {errno, std::generic_category()}); }

// Converts a system error of `work` to a std::runtime_error with the destination's name.
template <class Work>
auto named(const fs::path& destination, Work work) {
    try {
        return work();
    } catch (const std::system_error& error) {
        fail(destination, error.code());
    }
}

// A new file, opened exclusively, whose bytes are counted and hashed.
class NewFile : public std::streambuf {
public:
    explicit NewFile(const fs::path& path)
        : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)) {
        if (file_ < 0) throw std::system_error(errno, std::generic_category());
    }
    ~NewFile() override {
        if (file_ >= 0) ::close(file_);
    }
    NewFolder::Written end() {
        flush();
        if (::fsync(file_) != 0) throw std::system_error(errno, std::generic_category());
        if (::close(std::exchange(file_, -1)) != 0)
            throw std::system_error(errno, std::generic_category());
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
        held_.append(bytes, static_cast<std::size_t>(count));
        if (held_.size() >= 1 << 20) flush();
        return count;
    }

private:
    void flush() {
        hash_.add(held_);
        bytes_ += held_.size();
        for (std::string_view left = held_; !left.empty();) {
            const ::ssize_t done = ::write(file_, left.data(), left.size());
            if (done < 0 && errno == EINTR) continue;
            if (done < 0) throw std::system_error(errno, std::generic_category());
            left.remove_prefix(static_cast<std::size_t>(done));
        }
        held_.clear();
    }

    int file_;
    std::string held_;
    Sha256 hash_;
    std::uintmax_t bytes_ = 0;
};

NewFolder::Written write_new(const fs::path& path,
                             const std::function<void(std::ostream&)>& content) {
    NewFile file(path);
    std::ostream stream(&file);
    stream.exceptions(std::ios::badbit);  // the stream rethrows the exceptions of `file`
    content(stream);
    return file.end();
}

bool is_filled(const fs::path& folder) { return fs::is_directory(folder) && !fs::is_empty(folder); }

// The path from the root, which ends with the name of a file or a folder. Links are not followed.
fs::path complete(const fs::path& path) {
    const fs::path place = fs::absolute(path).lexically_normal();
    return place.has_filename() ? place : place.parent_path();
}

// The beginning of a destination's hidden names.
std::string stem(const std::string& name) { return "." + name.substr(0, 100) + ".apscope-"; }

}  // namespace

std::string hidden_name(const std::string& name) {
    std::random_device random;
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(random()) & 0xffffffffu);
    return stem(name) + digits;
}

Json this_process(const std::string& doing) {
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    char since[32] = "";
    const std::time_t now = std::time(nullptr);
    if (std::tm utc{}; ::gmtime_r(&now, &utc) != nullptr)
        std::strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%S+00:00", &utc);
    return {{"doing", doing}, {"process", ::getpid()}, {"host", host}, {"since", since}};
}

void sync(const fs::path& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw std::system_error(errno, std::generic_category());
    // Some file systems cannot sync a folder.
    const bool done = ::fsync(file) == 0 || errno == EINVAL;
    const int error = errno;
    ::close(file);
    if (!done) throw std::system_error(error, std::generic_category());
}

NewFolder::Written put_file(const fs::path& path,
                            const std::function<void(std::ostream&)>& content) {
    return named(path, [&] {
        const fs::path hidden = path.parent_path() / hidden_name(path.filename().string());
        try {
            const NewFolder::Written written = write_new(hidden, content);
            fs::rename(hidden, path);
            return written;
        } catch (...) {
            std::error_code ignored;
            fs::remove(hidden, ignored);
            throw;
        }
    });
}

NewFolder::NewFolder(const fs::path& destination, const std::string& doing)
    : destination_(destination), place_(complete(destination)) {
    named(destination_, [&] {
        const fs::path beside = is_filled(place_) ? place_ : place_.parent_path();
        const std::string name = place_.filename().string();
        fs::create_directories(beside);
        const fs::path hidden = beside / hidden_name(name);
        if (!fs::create_directory(hidden)) throw std::system_error(EEXIST, std::generic_category());
        hidden_.path = hidden;
        fs::permissions(hidden, fs::perms::owner_all);
        fs::create_directory(hidden / "new");
        Json about = this_process(doing);
        about["writes"] = name;
        write_new(hidden / mark_of_hidden, [&](std::ostream& out) { out << one_line(about); });
    });
}

NewFolder::Temporary::~Temporary() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
}

bool is_half_written(const fs::path& folder) {
    const std::string hidden = stem(complete(folder).filename().string());
    return std::ranges::any_of(fs::directory_iterator(folder), [&](const fs::directory_entry& e) {
        return e.is_directory() && e.path().filename().string().starts_with(hidden);
    });
}

NewFolder::Written NewFolder::write(const std::string& name,
                                    const std::function<void(std::ostream&)>& content) {
    return named(destination_, [&] { return write_new(hidden_.path / "new" / name, content); });
}

void NewFolder::put_folder() {
    named(destination_, [&] {
        sync(hidden_.path / "new");
        if (std::rename((hidden_.path / "new").c_str(), place_.c_str()) != 0) fail(destination_);
        sync(place_.parent_path());
    });
}

void NewFolder::put_files(const std::vector<std::string>& all, const std::string& mark) {
    named(destination_, [&] {
        sync(hidden_.path / "new");
        fs::remove(place_ / mark);
        sync(place_);
        for (const std::string& name : all) {
            if (name == mark) continue;
            if (fs::exists(hidden_.path / "new" / name))
                fs::rename(hidden_.path / "new" / name, place_ / name);
            else fs::remove(place_ / name);
        }
        sync(place_);
        fs::rename(hidden_.path / "new" / mark, place_ / mark);
        sync(place_);
    });
}

}  // namespace apscope
