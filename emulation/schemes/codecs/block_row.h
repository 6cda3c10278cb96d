// A row of fp64 values in a block format: packed element codes, the blocks' scales beside them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulation/blocks/blocks.h"
#include "emulation/schemes/exchange.h"

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

// A block format, how its elements are rounded, and what that says of all rows.
struct BlockGrid {
    BlockFormat format;
    Projection projection;
    std::vector<double> elements, scales;  // values of the codes
    GridLimits limits;

    // Throws std::invalid_argument where the two do not go together.
    BlockGrid(const BlockFormat& f, const Projection& p);
};

BlockRow encode_block_row(std::span<const double> x, const BlockGrid& grid,
                          const BlockSettings& settings);

// The row as a message, a piece of a tensor of `size` elements: payload of element codes; the
// tensor's scales are side information. If words were drawn, bias and variance follow exactly from
// each element's two neighbours.
void state_blocks(Message& m, const BlockRow& row, std::span<const double> x, std::size_t size,
                  const BlockGrid& grid, bool packs);

}  // namespace apscope::detail
