// The sums of two phases (phase_step.h) encoded in a block format, on a GPU. A shard's blocks are
// counted from its start, so that a block may lie in two pieces of an item: a first pass over the
// pieces finds the amax of every block, then every element is encoded by itself.
#pragma once

#include <cstdint>

#include "emulation/cuda/blocks/block_step.h"

namespace apscope::detail {

// A part of a shard's sum.
struct ShardSum {
    const float* sums;
    std::uint64_t elements;
    std::uint64_t in_shard;  // index in the shard of the first
};

// Finds the amax of the part's blocks, as counted_magnitude() states it. Parts come in order; a
// block that began in the part before continues.
struct BlockAmaxStep {
    ShardSum part;
    BlockScaling scaling;
    std::uint64_t block_size;
    std::uint32_t* amax_bits;  // of the shard's blocks

    APSCOPE_HD std::uint64_t first_block() const { return part.in_shard / block_size; }
    APSCOPE_HD std::uint64_t count() const {
        const std::uint64_t end = part.in_shard + part.elements;
        return (end + block_size - 1) / block_size - first_block();
    }
    APSCOPE_HD void operator()(std::uint64_t item) const {
        const std::uint64_t block = first_block() + item, begin = block * block_size,
                            first = begin < part.in_shard ? part.in_shard : begin,
                            past = part.in_shard + part.elements,
                            end = begin + block_size < past ? begin + block_size : past;
        std::uint32_t amax = begin < part.in_shard ? amax_bits[block] : 0;
        for (std::uint64_t i = first; i < end; ++i) {
            const std::uint32_t size =
                bits_cast<std::uint32_t>(part.sums[i - part.in_shard]) & ~sign_bit<float>;
            const std::uint32_t counted = counted_magnitude(scaling, size);
            amax = counted > amax ? counted : amax;
        }
        amax_bits[block] = amax;
    }
};

struct SumBlocksStep {
    ShardSum part;
    BlockRounding rounding;  // with the stream of the shard's owner
    TensorScale tensor;
    const std::uint32_t* amax_bits;  // of the shard's blocks
    double divisor;
    double* out;

    APSCOPE_HD std::uint64_t count() const { return part.elements; }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        const std::uint64_t at = part.in_shard + i,
                            block = at / static_cast<std::uint64_t>(rounding.block_size);
        const BlockScale scale = block_scale(rounding.scaling, tensor, amax_bits[block]);
        const double element = block_element(rounding, scale, part.sums[i], at);
        const double y = element_value(rounding.scaling.tensor_scale, static_cast<float>(element),
                                       scale.value, tensor.value);
        out[i] = y == y && divisor != 1.0 ? y / divisor : y;
    }
};

}  // namespace apscope::detail
