// The amount of memory that this process may use.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace apscope::detail {

// The memory of the machine in bytes, or the part that a control group allows this process.
std::size_t machine_memory();

// The least limit of the control groups in `groups`, the text of /proc/PID/cgroup, and of their
// parents; their file systems are mounted at `mounted`. The largest number if there is no limit.
std::size_t control_group_memory(const std::string& groups, const std::filesystem::path& mounted);

}  // namespace apscope::detail
