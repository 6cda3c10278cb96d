// Rotated blocks of 16 in a replay on a GPU: nvfp4 as its recipe (emulation/schemes/recipes/nvfp4).
// A thread rotates a group, which is a block, rounds it to the format and rotates the result back.
//
//      messages   16 lanes for 4096 elements   values, moments and statistics of a worker's blocks
//      extent     every 32nd of 256 groups     the largest magnitude of a rotated sum
//      sum        a group                      a sum in two phases rounded, rotated back, divided
//
// A shard's groups are counted from its start, so that a group may lie in two pieces of an item: a
// first pass over the pieces, in order, keeps the 16 sums of such a group among the `edges`.
#pragma once

#include <cstdint>

#include "analysis/cuda/block_moments.h"
#include "analysis/cuda/block_row_step.h"
#include "analysis/cuda/wide_messages.h"
#include "emulation/cuda/allreduce/block_phase_step.h"
#include "emulation/cuda/allreduce/phase_step.h"
#include "emulation/schemes/codecs/rotation.h"

namespace apscope::detail {

// A finite number as the fp32 number that the format rounds; beyond FLT_MAX it saturates.
APSCOPE_HD float narrowed_within(double x) {
    const double above = x < -FLT_MAX ? -FLT_MAX : x;
    return narrowed(above > FLT_MAX ? FLT_MAX : above);
}

// A rotated group, rounded.
struct RotatedBlock {
    static constexpr int size = Rotation::size;
    double x[size];  // rotated
    BlockScale scale;
    double element[size];
    float value[size];  // decoded, rotated

    // x: the group, of finite numbers. first_word: the index of the first one's random word.
    APSCOPE_HD RotatedBlock(const BlockRounding& rounding, const TensorScale& tensor,
                            const double (&group)[size], std::uint64_t first_word) {
        std::uint32_t amax = 0;
        for (int l = 0; l < size; ++l) x[l] = group[l];
        Rotation::forward(x);
        for (int l = 0; l < size; ++l) {
            const std::uint32_t magnitude =
                bits_cast<std::uint32_t>(narrowed_within(x[l])) & ~sign_bit<float>;
            amax = magnitude > amax ? magnitude : amax;
        }
        scale = block_scale(rounding.scaling, tensor, amax);
        for (int l = 0; l < size; ++l) {
            element[l] = block_element(rounding, scale, narrowed_within(x[l]),
                                       first_word + static_cast<std::uint64_t>(l));
            value[l] = element_value(rounding.scaling.tensor_scale, static_cast<float>(element[l]),
                                     scale.value, tensor.value);
        }
    }
    // The decoded values, rotated back.
    APSCOPE_HD void decode(double (&y)[size]) const {
        for (int l = 0; l < size; ++l) y[l] = value[l];
        Rotation::back(y);
    }
};

// The statistics of a worker's blocks in 4096 elements.
struct RotatedUse {
    BlockUseSums blocks;
    BasisUse basis;
};

struct RotatedWireStep {
    static constexpr int width = lanes_of_block, size = Rotation::size;
    using Lane = RotatedUse;

    const float* rows;
    Piece piece;
    int workers;
    BlockMoments roundings;  // of which the stream is a worker's
    FloatScale limits;       // of the elements
    const std::uint32_t* amax_bits;
    PhiloxKey key;
    bool keeps_special;  // elements that are not finite are sent as they are, else rotated as 0
    WideMessages messages;
    float* rounded;
    BlockUseSums* uses;  // of every line, as the next; null if the values are only rounded
    BasisUse* in_use;

    APSCOPE_HD std::uint64_t count() const {
        return static_cast<std::uint64_t>(workers) * piece.blocks() * width;
    }
    APSCOPE_HD RotatedUse begin(std::uint64_t item) const {
        const LaneItem at(item);
        const auto w = static_cast<std::uint64_t>(workers);
        const std::uint64_t first = at.line / w * sum_block, left = piece.count - first,
                            end = first + (left < sum_block ? left : std::uint64_t{sum_block});
        RotatedUse lane;
        for (std::uint64_t i = first + at.lane * size; i < end; i += width * size)
            add_group(lane, at.line % w, i, end);
        return lane;
    }
    APSCOPE_HD static RotatedUse share(const RotatedUse& lane) { return lane; }
    APSCOPE_HD static RotatedUse combine(const RotatedUse& a, const RotatedUse& b) {
        return {BlockUseSums::combined(a.blocks, b.blocks),
                {a.basis.subnormal + b.basis.subnormal, a.basis.saturated + b.basis.saturated,
                 b.basis.max_ulp > a.basis.max_ulp ? b.basis.max_ulp : a.basis.max_ulp}};
    }
    APSCOPE_HD void finish(std::uint64_t item, const RotatedUse&, const RotatedUse& all) const {
        const LaneItem at(item);
        if (at.lane != 0 || uses == nullptr) return;
        uses[at.line] = all.blocks;
        in_use[at.line] = all.basis;
    }

private:
    APSCOPE_HD void add_group(RotatedUse& lane, std::uint64_t worker, std::uint64_t first,
                              std::uint64_t end) const {
        const float* row = rows + worker * piece.count;
        double x[size];
        for (int l = 0; l < size; ++l) {
            const std::uint64_t i = first + static_cast<std::uint64_t>(l);
            const double given = i < end ? widened(row[i]) : 0.0;
            x[l] = ErrorLane::finite(given) ? given : 0.0;
        }
        BlockRounding rounding = roundings.rounding;
        rounding.stream.key = key;
        rounding.stream.worker = static_cast<std::uint32_t>(worker);
        const TensorScale tensor = tensor_scale(
            rounding.scaling, amax_bits + (rounding.scaling.tensor_scale ? worker : 0));
        const RotatedBlock block(rounding, tensor, x, piece.first + first);
        double y[size], bias[size], variance[size], of_group = 0.0;
        block.decode(y);
        if (uses != nullptr) {
            add_use(lane, block, tensor);
            for (int l = 0; l < size; ++l) {
                const RoundingMoments m = roundings.of(block.x[l], narrowed_within(block.x[l]),
                                                       block.value[l], block.scale.value, tensor);
                bias[l] = m.bias;
                variance[l] = m.variance;
            }
            Rotation::back(bias);
            of_group = Rotation::variance_back(variance);
        }
        for (int l = 0; l < size; ++l) {
            const std::uint64_t i = first + static_cast<std::uint64_t>(l);
            if (i >= end) continue;
            const bool finite = ErrorLane::finite(row[i]);
            const double value = finite || !keeps_special ? y[l] : widened(row[i]);
            rounded[worker * piece.count + i] = narrowed(value);
            if (uses != nullptr)
                messages.store(worker, i, value, finite ? bias[l] + 0.0 : 0.0,
                               finite ? of_group : 0.0);
        }
    }
    // The elements that pad the last group count, too, as they are sent.
    APSCOPE_HD void add_use(RotatedUse& lane, const RotatedBlock& block,
                            const TensorScale& tensor) const {
        const double infinity = bits_cast<double>(infinity_bits<double>);
        const bool is_zero = block.scale.value == 0.0f;
        FloatScale own = limits;
        own.scale = is_zero ? 0.0 : widened(block.scale.multiply);
        ErrorLane elements;
        double least = infinity, most = 0.0;
        for (int l = 0; l < size; ++l) {
            elements.add_limits(block.x[l], block.element[l], own);
            elements.add_pair(block.x[l], block.value[l], own);
            const double magnitude = absolute(block.x[l]);
            if (magnitude == 0.0) continue;
            least = magnitude < least ? magnitude : least;
            most = magnitude > most ? magnitude : most;
        }
        lane.basis.subnormal += elements.count[ErrorCounts::subnormal];
        lane.basis.saturated += elements.count[ErrorCounts::saturated];
        lane.basis.max_ulp =
            elements.max_ulp > lane.basis.max_ulp ? elements.max_ulp : lane.basis.max_ulp;
        BlockFactor factor{own.scale, widened(block.scale.value) / widened(tensor.value)};
        lane.blocks = BlockUseSums::combined(
            lane.blocks,
            BlockUseSums::of(factor, least, most, elements.count[ErrorCounts::saturated] != 0));
    }
};

// A part of a shard's rotated sum. edges: see EdgeGroups.
struct RotatedPart {
    static constexpr int size = Rotation::size;

    ShardSum part;
    bool ends;      // the shard ends with the part
    double* edges;  // of the part before and, behind them, of this one

    // Groups that have elements in the part.
    APSCOPE_HD std::uint64_t first_group() const { return part.in_shard / size; }
    APSCOPE_HD std::uint64_t groups() const {
        return (part.in_shard + part.elements + size - 1) / size - first_group();
    }
    APSCOPE_HD bool is_begun(std::uint64_t group) const { return group * size < part.in_shard; }
    APSCOPE_HD bool is_open(std::uint64_t group) const {
        return !ends && (group + 1) * size > part.in_shard + part.elements;
    }
    // The sums of a group that are finite, 0 in place of others and beyond the shard's end. Those
    // outside the part are `edges`, which must be known; `keep` stores those inside.
    APSCOPE_HD void read(std::uint64_t group, double (&x)[size], bool keep) const {
        double* const edge = is_begun(group) ? edges : edges + size;
        const bool crosses = is_begun(group) || is_open(group);
        for (int l = 0; l < size; ++l) {
            const std::uint64_t at = group * size + static_cast<std::uint64_t>(l);
            const bool inside = at >= part.in_shard && at - part.in_shard < part.elements;
            const double given = inside ? widened(part.sums[at - part.in_shard]) : 0.0;
            const double finite = ErrorLane::finite(given) ? given : 0.0;
            const bool before = at < part.in_shard, after = !before && !inside && !ends;
            x[l] = !inside && crosses && (before || (after && !keep)) ? edge[l] : finite;
            if (keep && crosses && inside) edge[l] = finite;
        }
    }
};

struct RotatedExtentStep {
    static constexpr int width = 32, size = Rotation::size;
    using Lane = SumExtent;

    RotatedPart sums;
    SumExtent* out;

    APSCOPE_HD std::uint64_t count() const {
        return (sums.part.elements + sum_block - 1) / sum_block * width;
    }
    APSCOPE_HD SumExtent begin(std::uint64_t item) const {
        constexpr std::uint64_t groups = sum_block / size;
        const std::uint64_t extent = item / width, all = sums.groups(),
                            last = (extent + 1) * width < count() ? (extent + 1) * groups : all;
        SumExtent found{};
        for (std::uint64_t g = extent * groups + item % width; g < last; g += width) {
            const std::uint64_t group = sums.first_group() + g;
            double x[size];
            sums.read(group, x, true);
            if (sums.is_open(group)) continue;
            Rotation::forward(x);
            for (int l = 0; l < size; ++l) {
                const float magnitude = absolute(narrowed_within(x[l]));
                found.largest = magnitude > found.largest ? magnitude : found.largest;
            }
        }
        return found;
    }
    APSCOPE_HD static SumExtent share(const SumExtent& lane) { return lane; }
    APSCOPE_HD static SumExtent combine(const SumExtent& a, const SumExtent& b) {
        return SumExtentStep::combine(a, b);
    }
    APSCOPE_HD void finish(std::uint64_t item, const SumExtent&, const SumExtent& all) const {
        if (item % width == 0) out[item / width] = all;
    }
};

struct RotatedSumStep {
    static constexpr int size = Rotation::size;

    RotatedPart sums;
    BlockRounding rounding;  // with the stream of the shard's owner
    TensorScale tensor;
    double divisor;
    double* out;  // of the part

    APSCOPE_HD std::uint64_t count() const { return sums.groups(); }
    APSCOPE_HD void operator()(std::uint64_t item) const {
        const std::uint64_t group = sums.first_group() + item;
        double x[size], y[size];
        sums.read(group, x, false);
        RotatedBlock(rounding, tensor, x, group * size).decode(y);
        for (int l = 0; l < size; ++l) {
            const std::uint64_t at = group * size + static_cast<std::uint64_t>(l);
            if (at < sums.part.in_shard || at - sums.part.in_shard >= sums.part.elements) continue;
            const std::uint64_t i = at - sums.part.in_shard;
            const double given = widened(sums.part.sums[i]),
                         sum = ErrorLane::finite(given) ? y[l] : given;
            out[i] = sum == sum && divisor != 1.0 ? sum / divisor : sum;
        }
    }
};

}  // namespace apscope::detail
