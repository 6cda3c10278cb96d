// The messages of workers in blocks, in a replay on a GPU (row_step.h). For a block format, the
// steps of emulation/cuda/blocks write values, element codes and scale codes of a piece; then:
//
//      use        16 lanes for 4096 elements    the factor of every block, and counts of blocks
//      wire       a lane                        the messages compared with the elements
//
// For a float grid with a scale for each unit of elements, UnitScaleStep comes before WireStep, and
// `use` after it. Workers are one after another: values and codes of one worker are `pitch` apart,
// scales and factors `blocks` apart.
#pragma once

#include <cstdint>

#include "analysis/cuda/block_moments.h"
#include "analysis/cuda/line_sums.h"
#include "analysis/cuda/piece.h"
#include "analysis/cuda/row_step.h"
#include "emulation/cuda/blocks/block_step.h"

namespace apscope::detail {

// The statistics of a worker's blocks in 4096 elements, of emulation/schemes/codecs/block_use.h.
// Made of 4-byte words, because a group of threads combines it by shuffles.
struct BlockUseSums {
    std::uint32_t blocks = 0, saturated = 0, range_sum = 0;
    std::int32_t range_max = 0, scale_min = 0x7FFFFFFF, scale_max = -0x7FFFFFFF - 1;
    // The exponents of the factors, those of blocks of zeros, too.
    std::int32_t factor_min = 0x7FFFFFFF, factor_max = -0x7FFFFFFF - 1;

    APSCOPE_HD static BlockUseSums combined(const BlockUseSums& a, const BlockUseSums& b) {
        return {a.blocks + b.blocks,
                a.saturated + b.saturated,
                a.range_sum + b.range_sum,
                a.range_max > b.range_max ? a.range_max : b.range_max,
                a.scale_min < b.scale_min ? a.scale_min : b.scale_min,
                a.scale_max > b.scale_max ? a.scale_max : b.scale_max,
                a.factor_min < b.factor_min ? a.factor_min : b.factor_min,
                a.factor_max > b.factor_max ? a.factor_max : b.factor_max};
    }
    // Of one block. least, most: the magnitudes of its finite elements other than 0; most is 0 if
    // there is none.
    APSCOPE_HD static BlockUseSums of(const BlockFactor& block, double least, double most,
                                      bool is_saturated) {
        const auto exponent = [](double x) {
            return exponent_of<double>(bits_cast<std::uint64_t>(x));
        };
        BlockUseSums use;
        if (block.factor > 0.0) use.factor_min = use.factor_max = exponent(block.factor);
        if (most == 0.0) return use;
        const int range = exponent(most) - exponent(least);
        use.blocks = 1;
        use.saturated = is_saturated ? 1 : 0;
        use.range_sum = static_cast<std::uint32_t>(range);
        use.range_max = range;
        if (block.scale > 0.0) use.scale_min = use.scale_max = exponent(block.scale);
        return use;
    }
};

struct BlockMessages {
    const float* values;
    const std::uint8_t *codes, *scales;
    double* factors;  // of the elements of a block, before they were rounded
    std::uint64_t pitch, blocks;
    int log2_size;  // of the number of elements of a block
    BlockMoments roundings;
    Codec element_codec, scale_codec;
    float unit;  // the smallest positive element
    int element_bits;
    FloatScale scale;                // the limits of the element format
    const std::uint32_t* amax_bits;  // one for every worker, if the format has a tensor scale

    APSCOPE_HD const FloatScale& limits() const { return scale; }
    APSCOPE_HD std::uint64_t block_of(std::uint64_t worker, std::uint64_t i) const {
        return worker * blocks + (i >> log2_size);
    }
    APSCOPE_HD double element(std::uint64_t worker, std::uint64_t i) const {
        const std::uint32_t code = codes[worker * pitch + i];
        if (!roundings.rounding.twos_complement) return decode_one(code, element_codec);
        return integer_value(code, 1u << (element_bits - 1), unit);
    }
    APSCOPE_HD SentValue at(std::uint64_t worker, std::uint64_t i) const {
        return {values[worker * pitch + i], element(worker, i), factors[block_of(worker, i)]};
    }
    APSCOPE_HD float block_scale_of(std::uint64_t block) const {
        return decode_one(std::uint32_t{scales[block]}, scale_codec);
    }
    APSCOPE_HD TensorScale tensor_of(std::uint64_t worker) const {
        const BlockScaling& scaling = roundings.rounding.scaling;
        return tensor_scale(scaling, amax_bits + (scaling.tensor_scale ? worker : 0));
    }
    APSCOPE_HD int block_bits() const { return log2_size; }
    // Stores the factor of the block that begins at element `first`.
    APSCOPE_HD BlockFactor begin_block(std::uint64_t worker, std::uint64_t first) const {
        const std::uint64_t block = block_of(worker, first);
        const float block_scale = block_scale_of(block);
        const TensorScale tensor = tensor_of(worker);
        const bool ratio = roundings.rounding.scaling.rule == ScaleRule::ratio;
        const double factor = block_scale == 0.0f ? 0.0
                              : ratio ? widened(BlockMoments::factor_of(block_scale, tensor))
                                      : 1.0 / widened(block_scale);
        factors[block] = factor;
        return {factor, widened(block_scale) / widened(tensor.value)};
    }

    APSCOPE_HD void add_to(RowLane& lane, float x, const SentValue& sent) const {
        lane.add_sent(x, sent, scale);
    }
    // The moments of rounding x, which became y.
    APSCOPE_HD RoundingMoments moments(std::uint64_t worker, std::uint64_t i, float x,
                                       double y) const {
        return roundings.of(widened(x), x, y, block_scale_of(block_of(worker, i)),
                            tensor_of(worker));
    }
};

// Counts the blocks of every line (piece.h), in which the workers are the rows. Messages:
// BlockMessages, or FloatMessages of units.
template <class Messages>
struct BlockUseStep {
    static constexpr int width = lanes_of_block;
    using Lane = BlockUseSums;

    const float* rows;
    Piece piece;
    int workers;
    Messages messages;
    BlockUseSums* out;

    APSCOPE_HD std::uint64_t count() const {
        return static_cast<std::uint64_t>(workers) * piece.blocks() * width;
    }
    APSCOPE_HD BlockUseSums begin(std::uint64_t item) const {
        const LaneItem at(item);
        const auto w = static_cast<std::uint64_t>(workers);
        const std::uint64_t begin = at.line / w * sum_block, left = piece.count - begin,
                            end = begin + (left < sum_block ? left : std::uint64_t{sum_block}),
                            size = std::uint64_t{1} << messages.block_bits();
        BlockUseSums lane;
        for (std::uint64_t i = begin + at.lane * size; i < end; i += lanes_of_block * size)
            lane = BlockUseSums::combined(
                lane, of_block(at.line % w, i, i + size < end ? i + size : end));
        return lane;
    }
    APSCOPE_HD static BlockUseSums share(const BlockUseSums& lane) { return lane; }
    APSCOPE_HD static BlockUseSums combine(const BlockUseSums& a, const BlockUseSums& b) {
        return BlockUseSums::combined(a, b);
    }
    APSCOPE_HD void finish(std::uint64_t item, const BlockUseSums&, const BlockUseSums& all) const {
        const LaneItem at(item);
        if (at.lane == 0) out[at.line] = all;
    }

private:
    APSCOPE_HD BlockUseSums of_block(std::uint64_t worker, std::uint64_t first,
                                     std::uint64_t end) const {
        const BlockFactor block = messages.begin_block(worker, first);
        float least = bits_cast<float>(infinity_bits<float>), most = 0.0f;
        bool saturated = false;
        for (std::uint64_t i = first; i < end; ++i) {
            const float size = absolute(rows[worker * piece.count + i]);
            if (!(size > 0.0f && size < bits_cast<float>(infinity_bits<float>))) continue;
            least = size < least ? size : least;
            most = size > most ? size : most;
            saturated = saturated || is_saturated(widened(size) * block.factor,
                                                  absolute(messages.element(worker, i)),
                                                  messages.limits().largest);
        }
        return BlockUseSums::of(block, least, most, saturated);
    }
};

// Finds the scales of units. together: the number of workers that share each; all or 1.
struct UnitScaleStep {
    const float* rows;
    Piece piece;
    int workers, together;
    BlockScaling scaling;
    PieceUnits wires;

    APSCOPE_HD std::uint64_t units() const {
        return (piece.count + (std::uint64_t{1} << wires.block_bits) - 1) >> wires.block_bits;
    }
    APSCOPE_HD std::uint64_t count() const {
        return static_cast<std::uint64_t>(workers / together) * units();
    }
    APSCOPE_HD void operator()(std::uint64_t item) const {
        const std::uint64_t unit = item % units(), worker = item / units() * together,
                            first = unit << wires.block_bits,
                            past = first + (std::uint64_t{1} << wires.block_bits),
                            end = past < piece.count ? past : piece.count;
        std::uint32_t amax = 0;
        for (std::uint64_t w = worker; w < worker + together; ++w) {
            for (std::uint64_t i = first; i < end; ++i) {
                const std::uint32_t size =
                    bits_cast<std::uint32_t>(rows[w * piece.count + i]) & ~sign_bit<float>;
                const std::uint32_t counted = counted_magnitude(scaling, size);
                amax = counted > amax ? counted : amax;
            }
        }
        wires.exponents[worker * wires.units + unit] =
            static_cast<std::int16_t>(block_exponent(scaling, amax));
    }
};

}  // namespace apscope::detail
