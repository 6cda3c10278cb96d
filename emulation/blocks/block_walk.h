// Enumerates the blocks of an array in batches, in the order of their scales:
//
//      blocks along the last axis       consecutive blocks: their elements are contiguous
//      along another axis               columns: blocks side by side, elements `inner` apart
//
// A batch is small enough for the first-level cache, unless it is one large block.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/float_environment.h"
#include "emulation/blocks/block_rule.h"
#include "emulation/machine/parallel.h"

namespace apscope::detail {

inline constexpr std::size_t batch_blocks = 256, batch_elements = 2048;

struct BlockBatch {
    std::size_t first;  // index of the first element
    std::size_t scale;  // index of the first block's scale
    std::size_t blocks;
    std::size_t elements;  // number of elements in all blocks
    bool columns;          // true: the blocks are side by side, false: consecutive
    std::size_t stride;    // distance between the elements of a block
    bool uniform;          // every block has counts[0] elements; the other counts are not set
    std::array<std::uint32_t, batch_blocks> counts;

    BlockPlace place(std::size_t block) const {
        if (columns || uniform)
            return {first + block * (columns ? 1 : counts[0]), stride, counts[0], scale + block};
        std::size_t begin = first;
        for (std::size_t b = 0; b < block; ++b) begin += counts[b];
        return {begin, stride, counts[block], scale + block};
    }
};

// Fills a batch with as many blocks as fit, from block b on, up to block end - 1 (b < end). `size`
// is the block size of the format.
inline void take_batch(BlockBatch& batch, BlockShape shape, std::size_t size, std::size_t b,
                       std::size_t end) {
    const std::size_t line = shape.length / size + (shape.length % size != 0);  // blocks along the
                                                                                // axis
    const std::size_t block = b / shape.inner % line;
    const auto count = [&](std::size_t k) { return std::min(size, shape.length - k * size); };
    batch.scale = b;
    batch.columns = shape.inner > 1;
    batch.stride = shape.inner;
    batch.uniform = true;
    if (batch.columns) {
        const std::size_t column = b % shape.inner, outer = b / shape.inner / line;
        batch.first = (outer * shape.length + block * size) * shape.inner + column;
        batch.blocks = std::min({batch_blocks, shape.inner - column, end - b});
        batch.counts[0] = static_cast<std::uint32_t>(count(block));
        batch.elements = batch.blocks * batch.counts[0];
        return;
    }
    batch.first = b / line * shape.length + block * size;
    if (shape.length % size == 0 || line == 1) {
        const std::size_t n = count(block);
        batch.counts[0] = static_cast<std::uint32_t>(n);
        batch.blocks =
            std::min({batch_blocks, end - b, std::max<std::size_t>(1, batch_elements / n)});
        batch.elements = batch.blocks * n;
        return;
    }
    batch.uniform = false;
    batch.blocks = batch.elements = 0;
    for (std::size_t k = block; batch.blocks < std::min(batch_blocks, end - b);
         k = k + 1 == line ? 0 : k + 1) {
        const std::size_t n = count(k);
        if (batch.blocks > 0 && batch.elements + n > batch_elements) break;
        batch.counts[batch.blocks++] = static_cast<std::uint32_t>(n);
        batch.elements += n;
    }
}

// Calls work(batch) for all blocks, and done() after each group of batches; threads share the
// groups.
template <class Work, class Done>
void for_batches(BlockShape shape, const BlockFormat& format, int threads, Work&& work,
                 Done&& done) {
    // Threads take groups of blocks with about this number of elements.
    constexpr std::size_t group_elements = std::size_t{1} << 15;
    const auto size = static_cast<std::size_t>(format.block_size);
    const std::size_t total = shape.scales(format);
    const std::size_t together =
        std::max<std::size_t>(shape.inner > 1 ? batch_blocks : 1, group_elements / size);
    const auto group = [&](std::size_t g) {
        BlockBatch batch;
        const std::size_t end = std::min(total, (g + 1) * together);
        for (std::size_t b = g * together; b < end; b += batch.blocks) {
            take_batch(batch, shape, size, b, end);
            work(batch);
        }
        done();
    };
    const std::size_t groups = total / together + (total % together != 0);
    parallel_pieces(groups, threads, group);
}

// Calls run(first block, number of blocks) for every run of blocks with served[block] = 1, and
// other(block) for every other block.
template <class Run, class Other>
void for_served_runs(const std::uint8_t* served, std::size_t blocks, Run&& run, Other&& other) {
    for (std::size_t b = 0; b < blocks;) {
        if (!served[b]) {
            other(b++);
            continue;
        }
        const std::size_t begin = b;
        while (b < blocks && served[b]) ++b;
        run(begin, b - begin);
    }
}

}  // namespace apscope::detail
