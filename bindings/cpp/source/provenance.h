// provenance.json of a folder of results, which docs/results_format.md describes.
#pragma once

#include <string>

#include "bindings/cpp/source/json_text.h"
#include "bindings/cpp/source/results_data.h"

namespace apscope {

// `files` describes the folder's other files.
std::string provenance(const Results::Data& d, Json files);

}  // namespace apscope
