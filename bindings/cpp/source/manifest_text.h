// The text of a trace's manifest, as the Python package writes it: a line for every tensor and
// step.
#pragma once

#include <string>
#include <vector>

#include "bindings/cpp/apscope/trace_writer.h"
#include "bindings/cpp/source/json_text.h"
#include "bindings/cpp/source/shapes.h"

namespace apscope {

// The manifest without its steps, which holds for all of them. metadata: those of the options, and
// of a trace that is continued.
std::string manifest_head(const TraceWriterOptions& options, const Shapes& shapes, Json metadata);

// The manifest; `steps` has the line of each.
std::string manifest_text(const std::string& head, const std::vector<std::string>& steps);

}  // namespace apscope
