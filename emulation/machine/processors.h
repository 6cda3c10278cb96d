// The number of processors that this process may use.
#pragma once

#include <filesystem>
#include <string>

namespace apscope::detail {

// The number of processors of the machine, or the part of them that the affinity mask (taskset,
// cpusets, Slurm) and the control groups allow this process; at least 1. The first call determines
// the number; later calls return the same number.
int usable_processors();

// The lowest quota of the control groups in `groups` and of their parents (control_groups.h), in
// processors, rounded up; the largest int if there is no quota.
int control_group_processors(const std::string& groups, const std::filesystem::path& mounted);

}  // namespace apscope::detail
