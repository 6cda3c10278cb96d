#include "bindings/cpp/source/safetensors_writer.h"

#include <cstdint>
#include <ostream>
#include <span>
#include <utility>

#include "bindings/cpp/source/little_endian.h"

namespace apscope {

void SafetensorsContent::write(std::ostream& out) const {
    Json::object_t header{{safetensors_metadata, about}};
    std::uint64_t end = 0;
    for (const auto& [key, tensor] : tensors) {
        const std::uint64_t begin = std::exchange(end, end + 4 * tensor->values.size());
        header.emplace_back(
            key, Json{{"dtype", "F32"}, {"shape", tensor->shape}, {"data_offsets", {begin, end}}});
    }
    std::string text = Json(std::move(header)).dump(-1, ' ', true);
    text.append((8 - text.size() % 8) % 8, ' ');
    const std::uint64_t length = text.size();
    out << bytes_of(length) << text;
    for (const auto& [key, tensor] : tensors)
        out << bytes_of(std::span<const float>(tensor->values));
}

}  // namespace apscope
