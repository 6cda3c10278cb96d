#include "emulation/machine/control_groups.h"

#include <fstream>
#include <iterator>
#include <sstream>

namespace apscope::detail {

namespace fs = std::filesystem;

std::string own_control_groups() {
    std::ifstream file("/proc/self/cgroup");
    return {std::istreambuf_iterator<char>(file), {}};
}

// A line of `groups` is ID:CONTROLLERS:PATH; in version 2 of control groups, CONTROLLERS is empty.
// Inside a container, PATH may be a path of the host; then the folder at which the file system is
// mounted is the control group.
void for_control_groups(const std::string& groups, const fs::path& mounted,
                        std::string_view controller,
                        const std::function<void(const fs::path&, bool)>& visit) {
    const std::string name(controller);
    std::istringstream lines(groups);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
        const bool unified = controllers == ",,";
        if (!unified && controllers.find("," + name + ",") == std::string::npos) continue;
        const fs::path top = unified ? mounted : mounted / name;
        for (fs::path group = fs::path(line.substr(second + 1)).relative_path();;
             group = group.parent_path()) {
            visit(top / group, unified);
            if (group.empty()) break;
        }
    }
}

}  // namespace apscope::detail
