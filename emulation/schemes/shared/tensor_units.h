// The tensors of a step that share agreed values: none, all of them, or those of a bucket of
// gradients as in PyTorch's DDP.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

struct TensorUnit {
    std::string name;                  // what a state calls it: tensors keep their own
    // In the order of the exchange; the first carries what the unit sends once.
    std::vector<std::size_t> tensors;
};

struct TensorUnits {
    enum class Kind { tensor, model, bucket } kind = Kind::tensor;
    std::size_t limit = 0;  // bytes from which on a bucket is full

    // The units of the scheme's tensors at a step, in the order of the exchange: from
    // the last tensor to the first, as backpropagation makes them.
    std::vector<TensorUnit> of(const SelectionInput& input, std::size_t step) const;
};

// "25MB", "512KB", "2GB" (powers of 1024) or a number of bytes. Throws std::invalid_argument, which
// calls it KEY=bucket:TEXT.
std::size_t parse_bucket_size(std::string_view key, std::string_view text);

}  // namespace apscope::detail
