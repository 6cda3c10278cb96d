// Tensors of a recorded step, and the safetensors file that they are written to.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/cpp/source/json_text.h"
#include "bindings/cpp/source/shapes.h"

namespace apscope {

struct RecordedTensor {
    std::string name;
    Shape shape;
    std::string_view dtype;  // in the header: F32, F16 or BF16
    std::string bytes;       // of the values
};

struct SafetensorsContent {
    Json about;  // the file's metadata
    // Each tensor with its name in the file.
    std::vector<std::pair<std::string, const RecordedTensor*>> tensors = {};

    // Writes the length of the header, the header, padded to 8 bytes, and the values.
    void write(std::ostream& out) const;
};

// The key of the header that has the metadata; no tensor may have this name.
inline constexpr const char* safetensors_metadata = "__metadata__";

}  // namespace apscope
