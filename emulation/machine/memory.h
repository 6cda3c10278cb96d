// The amount of memory that this process may use.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace apscope::detail {

// The bytes of memory that this process may use: the memory of the machine, or less if a control
// group or ulimit -v allows less.
std::size_t machine_memory();

// The lowest memory limit, in bytes, of the control groups in `groups` and of their parents; the
// largest std::size_t without a limit. The arguments are as for for_control_groups().
std::size_t control_group_memory(const std::string& groups, const std::filesystem::path& mounted);

}  // namespace apscope::detail
