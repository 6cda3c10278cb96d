// The text of a trace's manifest, as the Python package writes it: a line for every tensor and
// step.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cpp/apscope/trace_writer.h"

namespace apscope {

using Shape = std::vector<std::int64_t>;
using Shapes = std::vector<std::pair<std::string, Shape>>;  // of tensors, by their names

// The manifest without its steps, which holds for all of them.
std::string manifest_head(const TraceWriterOptions& options, const Shapes& shapes);

// The manifest; `steps` has the line of each.
std::string manifest_text(const std::string& head, const std::vector<std::string>& steps);

}  // namespace apscope
