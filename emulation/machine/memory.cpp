#include "emulation/machine/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

namespace apscope::detail {

namespace fs = std::filesystem;

// A line is ID:CONTROLLERS:PATH; in version 2 of control groups it has no controllers. A limit is a
// number of bytes, or "max". Inside a container the path may be the host's; then the mount itself
// is the group.
std::size_t control_group_memory(const std::string& groups, const fs::path& mounted) {
    std::size_t least = std::numeric_limits<std::size_t>::max();
    std::istringstream lines(groups);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
        const bool unified = controllers == ",,";
        if (!unified && controllers.find(",memory,") == std::string::npos) continue;
        const fs::path top = unified ? mounted : mounted / "memory";
        for (fs::path group = fs::path(line.substr(second + 1)).relative_path();;
             group = group.parent_path()) {
            std::ifstream file(top / group / (unified ? "memory.max" : "memory.limit_in_bytes"));
            if (std::size_t limit = 0; file >> limit) least = std::min(least, limit);
            if (group.empty()) break;
        }
    }
    return least;
}

std::size_t machine_memory() {
    std::ifstream file("/proc/self/cgroup");
    const std::string groups{std::istreambuf_iterator<char>(file), {}};
    const auto physical = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                          static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::size_t least = std::min(physical, control_group_memory(groups, "/sys/fs/cgroup"));
    struct rlimit limit{};  // set by ulimit -v
    if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        least = std::min<std::size_t>(least, limit.rlim_cur);
    return least;
}

}  // namespace apscope::detail
