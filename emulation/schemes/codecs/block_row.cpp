#include "emulation/schemes/codecs/block_row.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "core/fixed_shape_sum.h"
#include "emulation/blocks/block_rule.h"
#include "emulation/schemes/block_encoding.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/block_moments.h"
#include "emulation/schemes/codecs/row_use.h"

namespace apscope::detail {

std::vector<float> narrow_row(std::span<const double> x) {
    std::vector<float> narrow(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        narrow[i] = static_cast<float>(
            std::isinf(x[i]) ? x[i] : std::clamp<double>(x[i], -FLT_MAX, FLT_MAX));
    }
    return narrow;
}

float element_multiplier(double block_scale, float tensor_scale) {
    return std::min(1.0f / (static_cast<float>(block_scale) * (1.0f / tensor_scale)), FLT_MAX);
}

BlockGrid::BlockGrid(const BlockFormat& f, const Projection& p) : format(f), projection(p) {
    validate(format);
    validate(projection, format.element);
    elements = element_values(format);
    scales = scale_values(format);
    limits = limits_of(format.element, make_cast<double>(format.element, projection));
}

namespace {

// Encodes the part of a row that begins at element `first` and at the scale with index `scale`.
void encode_part(BlockRow& row, std::span<const double> x, std::size_t first, std::size_t scale,
                 BlockShape shape, const BlockGrid& grid, BlockSettings settings) {
    const BlockFormat& format = grid.format;
    const std::span<const double> part = x.subspan(first, shape.size());
    const auto codes = std::span(row.codes).subspan(first, shape.size());
    const auto scales = std::span(row.scales).subspan(scale, shape.scales(format));
    settings.first_element += first;
    if (format.rule == ScaleRule::ratio) {
        const std::vector<float> narrow = narrow_row(part);
        row.tensor_scale = encode_blocks(std::span<const float>(narrow), codes, scales, shape,
                                         format, grid.projection, settings);
    } else {
        row.tensor_scale =
            encode_blocks(part, codes, scales, shape, format, grid.projection, settings);
    }
    decode_blocks(codes, scales, row.tensor_scale,
                  std::span(row.values).subspan(first, shape.size()), shape, format);
}

}  // namespace

BlockRow encode_block_row(std::span<const double> x, const BlockGrid& grid,
                          const BlockSettings& settings, std::size_t line) {
    const BlockLines blocks{static_cast<std::size_t>(grid.format.block_size), line};
    const BlockShape complete = blocks.complete(x.size()), last = blocks.last(x.size());
    BlockRow row{std::vector<std::uint8_t>(x.size()),
                 std::vector<std::uint8_t>(blocks.scales(x.size(), grid.format)), 1.0f,
                 std::vector<float>(x.size()), blocks};
    if (complete.outer != 0) encode_part(row, x, 0, 0, complete, grid, settings);
    if (complete.outer == 0 || last.length != 0) {
        encode_part(row, x, complete.size(), complete.scales(grid.format), last, grid, settings);
    }
    return row;
}

namespace {

// Fills in the statistics of the part. The elements of a block with scale 0 decode to 0 and are not
// counted in GridUse.
void state_use(Message& m, const BlockRow& row, std::span<const double> x, const OwnPart& part,
               const BlockGrid& grid) {
    const BlockFormat& format = grid.format;
    GridUse use;
    BlockUse blocks;
    double codes[sum_block], each[sum_block];
    const std::size_t last = part.first + part.count;
    for (std::size_t begin = part.first; begin < last; begin += sum_block) {
        const std::size_t count = std::min(sum_block, last - begin);
        for (std::size_t i = 0; i < count;) {
            const BlockLines::Run run = row.blocks.at(begin + i);
            const std::size_t end = std::min(run.end - begin, count);
            const double block_scale = grid.scales[row.scales[run.index]];
            const double scale = format.rule == ScaleRule::ratio
                                     ? element_multiplier(block_scale, row.tensor_scale)
                                     : 1.0 / block_scale;
            std::fill(each + i, each + end, block_scale == 0.0 ? 0.0 : scale);
            i = end;
        }
        for (std::size_t i = 0; i < count; ++i) codes[i] = grid.elements[row.codes[begin + i]];
        add_row(use, x.subspan(begin, count), codes, m.values.data() + begin, each, grid.limits,
                m.saturated, begin, x.size());
    }
    for (std::size_t first = part.first; first < last;) {
        const BlockLines::Run run = row.blocks.at(first);
        const std::size_t end = std::min(run.end, last);
        blocks.add(x, m.saturated, first, end - first,
                   grid.scales[row.scales[run.index]] / row.tensor_scale);
        first = end;
    }
    m.grid_use = use;
    m.block_use = blocks;
}

}  // namespace

void state_blocks(Message& m, const BlockRow& row, std::span<const double> x, const OwnPart& part,
                  const BlockGrid& grid, const TrainingStep& step) {
    const BlockFormat& format = grid.format;
    const bool draws = is_stochastic(grid.projection.rounding),
               has_moments = draws && step.describes;
    m.prepare(x.size(), false, has_moments);
    std::ranges::copy(row.values, m.values.begin());
    if (step.describes) state_use(m, row, x, part, grid);
    m.certain = !draws;
    if (has_moments) {
        state_moments(m, row, x, format, grid.projection);
        for (std::size_t i = 0; i < x.size(); ++i)  // elements that are not finite have no error
            if (!std::isfinite(x[i]) || !std::isfinite(row.values[i]))
                m.bias[i] = m.variance[i] = 0.0;
    }
    m.payload_bits = payload_bits(format, part.count);
    const ScaleBits side = scale_bits_of(format, part.scales, part.tensor_scale);
    m.side_bits = side.all;
    m.tensor_bits = side.of_tensor;
    if (!step.packs) return;
    BitWriter bits;
    for (const std::uint8_t code : std::span(row.codes).subspan(part.first, part.count))
        bits.put(code, format.element.storage_bits());
    m.payload = bits.take();
}

}  // namespace apscope::detail
