#include "bindings/cpp/source/lock.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <ctime>
#include <stdexcept>
#include <utility>

#include "bindings/cpp/source/sentences.h"
#include "core/error.h"

namespace apscope {

Lock::Lock(std::filesystem::path path, const std::string& doing, const std::filesystem::path& what)
    : path_(std::move(path)) {
    const std::string who = json_line(this_process(doing));
    try {
        // The last holder may remove the file after it is opened and before it is locked.
        while (!is_held()) {
            file_.reset();
            file_.emplace(path_, O_RDWR | O_CREAT | O_NOFOLLOW, 0644);
            if (::flock(file_->number(), LOCK_EX | LOCK_NB) != 0) {
                if (errno != EWOULDBLOCK) throw_system_error();
                throw error("another process writes " + shown(what) +
                            "; wait for it, or give another folder");
            }
        }
    } catch (const std::system_error& failed) {
        throw std::runtime_error(shown(what) + " cannot be written: " + failed.code().message());
    }
    if (::ftruncate(file_->number(), 0) != 0 ||
        ::write(file_->number(), who.data(), who.size()) < 0)
        errno = 0;  // the file is locked even if its text cannot be written
}

Lock::~Lock() {
    if (is_held()) ::unlink(path_.c_str());
}

bool Lock::is_held() const {
    struct stat mine{}, there{};
    return file_ && ::fstat(file_->number(), &mine) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
           mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
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

}  // namespace apscope
