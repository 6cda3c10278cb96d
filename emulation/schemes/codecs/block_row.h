// Encodes a row of fp64 values in a block format, as element codes and the scales of the blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "emulation/blocks/blocks.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// The positions of blocks in a row that consists of lines. No block crosses the end of a line; the
// last line of a shard may be shorter than the others.
struct BlockLines {
    std::size_t block = 1;  // length of a block
    // Length of a line. By default, the row is one line.
    std::size_t line = std::numeric_limits<std::size_t>::max();

    struct Run {
        std::size_t index,  // index of the block's scale
            end;            // the first element after the block
    };
    // The block that contains element i.
    Run at(std::size_t i) const {
        const std::size_t begin = i / line * line, place = (i - begin) / block,
                          complete = line / block,
                          blocks = complete + (complete * block != line ? 1 : 0);
        return {i / line * blocks + place, begin + std::min((place + 1) * block, line)};
    }
    // The shapes of the complete lines, as one array, and of the shorter last line.
    BlockShape complete(std::size_t elements) const { return {elements / line, line, 1}; }
    BlockShape last(std::size_t elements) const { return {1, elements % line, 1}; }
    // The number of scales of a row of `elements` elements.
    std::size_t scales(std::size_t elements, const BlockFormat& format) const {
        return complete(elements).scales(format) + last(elements).scales(format);
    }
};

struct BlockRow {
    // The codes of the elements, one byte each, and the codes of the blocks' scales.
    std::vector<std::uint8_t> codes, scales;
    float tensor_scale;
    std::vector<float> values;  // the decoded elements
    BlockLines blocks;
};

// fl32(x), where finite numbers beyond FLT_MAX saturate. Formats with scales of the rule `ratio`
// are defined for fp32 numbers.
std::vector<float> narrow_row(std::span<const double> x);

// The fp32 factor by which the scale rule `ratio` multiplies an element before rounding.
float element_multiplier(double block_scale, float tensor_scale);

// A block format, the rounding of its elements, and tables that are the same for all rows.
struct BlockGrid {
    BlockFormat format;
    Projection projection;
    std::vector<double> elements, scales;  // the values of all codes of elements and of scales
    GridLimits limits;

    // Throws std::invalid_argument if the format does not support the projection.
    BlockGrid(const BlockFormat& f, const Projection& p);
};

// Encodes a row that consists of lines of `line` elements. By default, the row is one line.
BlockRow encode_block_row(std::span<const double> x, const BlockGrid& grid,
                          const BlockSettings& settings, std::size_t line = BlockLines().line);

// The part of an encoded row that belongs to the tensor of the message. The other elements of the
// row complete the first and the last block of this part.
struct OwnPart {
    std::size_t first, count;
    std::uint64_t scales;  // number of scales in the message: the blocks that begin in the tensor
    bool tensor_scale = true;  // true: the message also has the tensor scale, if the format has one
};

// Writes the row into a message of this step: values and moments of all elements, but statistics
// and payload of `part` only. With stochastic rounding, bias and variance are computed exactly from
// each element's two neighbours.
void state_blocks(Message& m, const BlockRow& row, std::span<const double> x, const OwnPart& part,
                  const BlockGrid& grid, const TrainingStep& step);

}  // namespace apscope::detail
