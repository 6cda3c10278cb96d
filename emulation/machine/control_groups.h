// The control groups of this process. Their files state the limits of memory and processor time.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace apscope::detail {

// The text of /proc/self/cgroup; empty if the file does not exist.
std::string own_control_groups();

// Calls visit(folder, unified) for the folder of every control group that has the controller, and
// for the folders of its parents. `groups` is the text of /proc/PID/cgroup, and `mounted` the
// folder at which the file systems of control groups are mounted. `unified` is true in version 2 of
// control groups.
void for_control_groups(const std::string& groups, const std::filesystem::path& mounted,
                        std::string_view controller,
                        const std::function<void(const std::filesystem::path&, bool)>& visit);

}  // namespace apscope::detail
