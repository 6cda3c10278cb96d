// The control groups of this process, whose files have its limits of memory and processor time.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace apscope::detail {

// The text of /proc/self/cgroup; empty where there is none.
std::string own_control_groups();

// Calls visit(folder, unified) for the folder of every control group in `groups`, the text of
// /proc/PID/cgroup, that has the controller, and for those of its parents. `unified` is true in
// version 2 of control groups. Their file systems are mounted at `mounted`.
void for_control_groups(const std::string& groups, const std::filesystem::path& mounted,
                        std::string_view controller,
                        const std::function<void(const std::filesystem::path&, bool)>& visit);

}  // namespace apscope::detail
