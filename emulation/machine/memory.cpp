#include "emulation/machine/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "emulation/machine/control_groups.h"

namespace apscope::detail {

namespace fs = std::filesystem;

// The files of control groups state a limit as a number of bytes or, for no limit, as "max".
std::size_t control_group_memory(const std::string& groups, const fs::path& mounted) {
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for_control_groups(groups, mounted, "memory", [&](const fs::path& group, bool unified) {
        std::ifstream file(group / (unified ? "memory.max" : "memory.limit_in_bytes"));
        if (std::size_t limit = 0; file >> limit) least = std::min(least, limit);
    });
    return least;
}

std::size_t machine_memory() {
    const auto physical = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                          static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::size_t least =
        std::min(physical, control_group_memory(own_control_groups(), "/sys/fs/cgroup"));
    struct rlimit limit{};  // set by ulimit -v
    if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        least = std::min<std::size_t>(least, limit.rlim_cur);
    return least;
}

}  // namespace apscope::detail
