// A row of fp64 values in a block format: packed element codes, the blocks' scales beside them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulation/blocks/blocks.h"
#include "emulation/schemes/tensor_scheme.h"

namespace apscope::detail {

struct BlockRow {
    std::vector<std::uint8_t> codes, scales;
    float tensor_scale;
    std::vector<float> values;  // decoded
};

// fl32(x), saturating; what formats with ratio scales are defined on.
std::vector<float> narrow_row(std::span<const double> x);

// Rule ratio: what an element is multiplied by, in fp32, before it is rounded.
float element_multiplier(double block_scale, float tensor_scale);

BlockRow encode_block_row(std::span<const double> x, const BlockFormat& format, const Projection& projection, const BlockSettings& settings);

// The row as a message: payload of element codes; the scales, and the tensor's, are side information. If words were
// drawn, bias and variance follow exactly from each element's two neighbours.
Message block_message(const BlockRow& row, std::span<const double> x, const BlockFormat& format, const Projection& projection, bool packs);

}  // namespace apscope::detail
