// Names and paths in the sentences of errors: on one line, whatever characters they have.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "analysis/trace/one_line.h"
#include "core/limits.h"

namespace apscope {

inline std::string in_quotes(std::string_view name) {
    return "'" + detail::one_line(detail::limits::clipped(name)) + "'";
}

inline std::string shown(const std::filesystem::path& path) {
    return detail::one_line(path.string());
}

}  // namespace apscope
