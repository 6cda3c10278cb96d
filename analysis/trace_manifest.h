// manifest.json: its checks, and the names of the files a step may have.
#pragma once

#include <string>
#include <string_view>

#include "analysis/trace.h"

namespace apscope {

// "step_00000100", "worker_0003.safetensors" and so on.
std::string step_folder(std::int64_t number);
std::string file_name(Kind kind, int worker);

// Reads `bytes` (the manifest at `path`); throws std::invalid_argument with one sentence that
// names the file and the field. Unknown fields are refused: they may change what the rest means.
Manifest parse_manifest(std::string_view bytes, const std::filesystem::path& path);

}  // namespace apscope
