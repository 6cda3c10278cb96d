#include "bindings/cpp/source/safetensors_writer.h"

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <utility>

#include "bindings/cpp/source/little_endian.h"

namespace apscope {

void SafetensorsContent::write(std::ostream& out) const {
    // Wider numbers come first, so that every tensor is aligned.
    auto ordered = tensors;
    std::ranges::stable_partition(ordered,
                                  [](const auto& named) { return named.second->dtype == "F32"; });
    Json::object_t header{{safetensors_metadata, about}};
    std::uint64_t end = 0;
    for (const auto& [key, tensor] : ordered) {
        const std::uint64_t begin = std::exchange(end, end + tensor->bytes.size());
        header.emplace_back(key, Json{{"dtype", tensor->dtype},
                                      {"shape", tensor->shape},
                                      {"data_offsets", {begin, end}}});
    }
    std::string text = Json(std::move(header)).dump(-1, ' ', true);
    text.append((8 - text.size() % 8) % 8, ' ');
    const std::uint64_t length = text.size();
    out << bytes_of(length) << text;
    for (const auto& [key, tensor] : ordered) out << tensor->bytes;
}

}  // namespace apscope
