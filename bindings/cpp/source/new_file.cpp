#include "bindings/cpp/source/new_file.h"

#include <cerrno>
#include <ostream>
#include <streambuf>
#include <string_view>

#include "bindings/cpp/source/descriptor.h"
#include "bindings/cpp/source/hidden_names.h"
#include "bindings/cpp/source/sha256.h"

namespace apscope {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

Written write_new(const fs::path& path, const WriteBytes& content) {
    NewFile file(path);
    std::ostream stream(&file);
    stream.exceptions(std::ios::badbit);  // the stream rethrows the exceptions of `file`
    content(stream);
    return file.end();
}

void sync_now(const fs::path& path) {
    const Descriptor file(path, O_RDONLY);
    // Some file systems cannot sync a folder.
    if (::fsync(file.number()) != 0 && errno != EINVAL) throw_system_error();
}

void sync(const fs::path& path) {
    named(path, [&] { sync_now(path); });
}

Written put_file(const fs::path& path, const WriteBytes& content,
                 const std::function<std::string(const Written&)>& name_of) {
    return named(path, [&] {
        const fs::path hidden = path.parent_path() / fresh_name(path.filename().string());
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

}  // namespace apscope
