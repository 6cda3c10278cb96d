// Units of a step's tensors that share agreed values: single tensors, all tensors, or the tensors
// of a bucket of gradients as in PyTorch's DDP.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

struct TensorUnit {
    std::string name;  // name in a state; a unit of one tensor has the tensor's name
    // The tensors in the order of the exchange. The first one sends the unit's side information.
    std::vector<std::size_t> tensors;
};

// The number of elements of a tensor; none if it belongs to another scheme.
using ServedElements = std::function<std::optional<std::size_t>(std::size_t tensor)>;

struct TensorUnits {
    enum class Kind { tensor, model, bucket } kind = Kind::tensor;
    std::size_t limit = 0;  // bytes at which a bucket is full; the first bucket: 1 MiB, if less

    // The units of a scheme's tensors at a step, in the order of the exchange: from
    // the last tensor to the first, as backpropagation makes them.
    std::vector<TensorUnit> of(const SelectionInput& input, std::size_t step) const;
    // The same for tensors with these numbers of elements; units of single tensors get other names.
    std::vector<TensorUnit> of(std::size_t tensors, const ServedElements& elements) const;
};

// Parses "25MB", "512KB", "2GB" (powers of 1024) or a number of bytes. Throws
// std::invalid_argument. before: the text before the size in a spec, for the message: unit=bucket:
// or bucket=.
std::size_t parse_bucket_size(std::string_view before, std::string_view text);

}  // namespace apscope::detail
