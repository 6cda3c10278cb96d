// A row of fp64 values in a block format: packed element codes, the blocks' scales beside them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "emulation/blocks/blocks.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// The blocks of a row that consists of lines: none goes beyond the end of its line.
struct BlockLines {
    std::size_t block = 1;
    std::size_t line = std::numeric_limits<std::size_t>::max();  // elements; of a row, all of them

    struct Run {
        std::size_t index, end;  // of its scale; the first element behind it
    };
    // The block that element i is in.
    Run at(std::size_t i) const {
        const std::size_t begin = i / line * line, place = (i - begin) / block,
                          whole = line / block, blocks = whole + (whole * block != line ? 1 : 0);
        return {i / line * blocks + place, begin + std::min((place + 1) * block, line)};
    }
    BlockShape shape(std::size_t elements) const {
        return line >= elements ? BlockShape{1, elements, 1} : BlockShape{elements / line, line, 1};
    }
};

struct BlockRow {
    std::vector<std::uint8_t> codes, scales;
    float tensor_scale;
    std::vector<float> values;  // decoded
    BlockLines blocks;
};

// fl32(x), finite numbers saturating; what formats with ratio scales are defined on.
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

// Of lines of `line` elements, or of one.
BlockRow encode_block_row(std::span<const double> x, const BlockGrid& grid,
                          const BlockSettings& settings, std::size_t line = BlockLines().line);

// What of a row is a message's own; the rest lends it whole blocks.
struct OwnPart {
    std::size_t first, count;
    std::uint64_t scales;      // of blocks that the tensor begins: its side information
    bool tensor_scale = true;  // and the scale of the whole, if the format has one
};

// The row as a message: values and moments of all elements; statistics and payload of its own. If
// words were drawn, bias and variance follow exactly from each element's two neighbours.
void state_blocks(Message& m, const BlockRow& row, std::span<const double> x, const OwnPart& own,
                  const BlockGrid& grid, bool packs);

}  // namespace apscope::detail
