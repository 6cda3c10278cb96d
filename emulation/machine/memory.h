// How much memory this process may use.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace apscope::detail {

// In bytes: the memory of the machine, or the part that a control group allows this process.
std::size_t machine_memory();

// The least limit of the groups that /proc/PID/cgroup names and of those above them, `mounted`
// being where their file systems are; the largest number where there is none.
std::size_t control_group_memory(const std::string& groups, const std::filesystem::path& mounted);

}  // namespace apscope::detail
