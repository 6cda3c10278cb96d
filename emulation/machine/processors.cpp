#include "emulation/machine/processors.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "emulation/machine/control_groups.h"

namespace apscope::detail {

namespace fs = std::filesystem;

namespace {

constexpr int unlimited = std::numeric_limits<int>::max();

// The number of processors in the affinity mask of the calling thread.
int processors_in_mask() {
#if defined(__linux__)
    for (std::size_t most = CPU_SETSIZE; most <= std::size_t{1} << 20; most *= 2) {
        cpu_set_t* mask = CPU_ALLOC(most);
        if (mask == nullptr) break;
        const std::size_t bytes = CPU_ALLOC_SIZE(most);
        const bool known = ::sched_getaffinity(0, bytes, mask) == 0;  // fails if the mask is too
                                                                      // short
        const int count = known ? CPU_COUNT_S(bytes, mask) : 0;
        CPU_FREE(mask);
        if (known) return std::max(1, count);
    }
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

// In version 2 of control groups, one file has "QUOTA PERIOD" or "max PERIOD". In version 1, a
// quota of -1 means that there is no quota.
int control_group_processors(const std::string& groups, const fs::path& mounted) {
    int least = unlimited;
    for_control_groups(groups, mounted, "cpu", [&](const fs::path& group, bool unified) {
        double quota = 0, period = 0;
        std::ifstream file(group / (unified ? "cpu.max" : "cpu.cfs_quota_us"));
        if (!(file >> quota)) return;
        if (unified) file >> period;
        else std::ifstream(group / "cpu.cfs_period_us") >> period;
        if (quota > 0 && period > 0 && quota / period < least)
            least = std::max(1, static_cast<int>(std::ceil(quota / period)));
    });
    return least;
}

int usable_processors() {
    static const int count = std::min(
        processors_in_mask(), control_group_processors(own_control_groups(), "/sys/fs/cgroup"));
    return count;
}

}  // namespace apscope::detail
