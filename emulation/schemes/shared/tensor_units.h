// The tensors of a step that share agreed values: none, all of them, or those of a bucket of
// gradients as in PyTorch's DDP.
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
    std::string name;  // what a state calls it: tensors keep their own
    // In the order of the exchange; the first carries what the unit sends once.
    std::vector<std::size_t> tensors;
};

// Elements of a tensor; none of one that another scheme serves.
using ServedElements = std::function<std::optional<std::size_t>(std::size_t tensor)>;

struct TensorUnits {
    enum class Kind { tensor, model, bucket } kind = Kind::tensor;
    std::size_t limit = 0;  // bytes from which on a bucket is full

    // The units of a scheme's tensors at a step, in the order of the exchange: from
    // the last tensor to the first, as backpropagation makes them.
    std::vector<TensorUnit> of(const SelectionInput& input, std::size_t step) const;
    // The same of tensors of these elements, without the names of single ones.
    std::vector<TensorUnit> of(std::size_t tensors, const ServedElements& elements) const;
};

// "25MB", "512KB", "2GB" (powers of 1024) or a number of bytes. Throws std::invalid_argument, which
// names it with the words before it: unit=bucket: or bucket=.
std::size_t parse_bucket_size(std::string_view before, std::string_view text);

}  // namespace apscope::detail
