// A unit is a group of tensors of a step with a common scale: a single tensor, all tensors, or the
// tensors of a bucket of gradients as in PyTorch's DDP.
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

// Returns the number of elements of a tensor; no value if the tensor belongs to another scheme.
using ServedElements = std::function<std::optional<std::size_t>(std::size_t tensor)>;

struct TensorUnits {
    enum class Kind { tensor, model, bucket } kind = Kind::tensor;
    std::size_t limit = 0;  // bytes at which a bucket is full; for the first bucket at most 1 MiB

    // The units of a scheme's tensors at a step, in the order of the exchange: from the last tensor
    // to the first, in the order of backpropagation.
    std::vector<TensorUnit> of(const SelectionInput& input, std::size_t step) const;
    // The units of tensors with these numbers of elements. In this overload, a unit of one tensor
    // does not have the tensor's name.
    std::vector<TensorUnit> of(std::size_t tensors, const ServedElements& elements) const;
};

// Parses "25MB", "512KB", "2GB" (powers of 1024) or a number of bytes. Throws std::invalid_argument
// for other texts. before: the text before the size in a spec (unit=bucket: or bucket=), for the
// error message.
std::size_t parse_bucket_size(std::string_view before, std::string_view text);

}  // namespace apscope::detail
