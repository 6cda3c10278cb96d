// Rounds one batch of blocks by the loops of block_kernels.h, which compute the amax of every
// block, then the scales, then the elements. block_rule.h rounds the blocks that the loops do not
// support.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "emulation/blocks/block_job.h"
#include "emulation/blocks/block_walk.h"
#include "emulation/draws/random_words.h"
#include "emulation/machine/streaming.h"

namespace apscope::detail {

// One scale per element of a run: the scale of the element's block.
template <class Real>
struct SpreadScales {
    BitsOf<Real> shift[batch_elements];
    Real multiply[batch_elements], value[batch_elements];

    BlockScales<Real> view() const { return {shift, multiply, value}; }
};

// A thread's buffers for its current batch.
template <class Real>
struct BatchRoom {
    BitsOf<Real> maxima[batch_blocks], shift[batch_blocks];  // maxima: largest magnitudes of
                                                             // blocks; shift: see BlockScales
    std::int32_t exponents[batch_blocks];                    // k of the scales 2^k
    Real multiply[batch_blocks], value[batch_blocks];        // see BlockScales
    std::uint8_t codes[batch_blocks], served[batch_blocks];  // codes: of the scales; served: 1 if
                                                             // the loops support the block
    SpreadScales<Real> spread;                               // the scales of a run of elements
    std::uint32_t drawn[batch_elements];                     // random integers
    alignas(64) Real rounded[batch_elements];                // results that are copied to the
                                                             // output later

    BlockScales<Real> scales(std::size_t block) const {
        return {shift + block, multiply + block, value + block};
    }
};

// Rounds batches of blocks. Out is Real for values, or std::uint8_t for codes; in the latter case,
// `scales` receives the codes of the scales.
template <class Real, class Out>
class BatchRounder {
    static constexpr bool encodes = std::is_same_v<Out, std::uint8_t>;

public:
    BatchRounder(const BlockJob<Real>& job, const Real* in, Out* out, std::uint8_t* scales,
                 bool streams)
        : job_(job), in_(in), out_(out), scales_(scales), streams_(streams) {}

    void operator()(const BlockBatch& batch) const {
        BatchRoom<Real> room;
        if (!job_.served) {
            for (std::size_t b = 0; b < batch.blocks; ++b) by_rule(batch.place(b));
            return;
        }
        find_maxima(batch, room);
        find_scales(batch, room);
        for_served_runs(
            room.served, batch.blocks,
            [&](std::size_t b, std::size_t n) { round_run(batch, room, b, n); },
            [&](std::size_t b) { by_rule(batch.place(b)); });
    }

private:
    void by_rule(const BlockPlace& place) const {
        if constexpr (encodes) encode_block_by_rule(in_, out_, scales_, place, job_.encoder);
        else quantize_block_by_rule(in_, out_, place, job_.encoder);
    }

    void find_maxima(const BlockBatch& batch, BatchRoom<Real>& room) const {
        const Real* in = in_ + batch.first;
        const std::uint32_t* counts = batch.counts.data();
        BitsOf<Real>* maxima = room.maxima;
        if (batch.columns) {
            simd::run<ColumnMaxima<Real>>(in, maxima, batch.blocks,
                                          static_cast<std::size_t>(counts[0]), batch.stride);
        } else if (batch.uniform && counts[0] == 16) {
            simd::run<BlockMaxima<Real, 16>>(in, maxima, batch.blocks, counts, batch.uniform);
        } else if (batch.uniform && counts[0] == 32) {
            simd::run<BlockMaxima<Real, 32>>(in, maxima, batch.blocks, counts, batch.uniform);
        } else {
            simd::run<BlockMaxima<Real, 0>>(in, maxima, batch.blocks, counts, batch.uniform);
        }
    }

    void find_scales(const BlockBatch& batch, BatchRoom<Real>& room) const {
        const BitsOf<Real>* maxima = room.maxima;
        bool ratio = false;
        if constexpr (std::is_same_v<Real, float>) {
            ratio = job_.ratio;
            if (ratio) {
                simd::run<RatioScales>(
                    maxima, batch.blocks, &job_.ratio_rule, static_cast<float*>(room.multiply),
                    static_cast<float*>(room.value), static_cast<std::uint8_t*>(room.codes),
                    static_cast<std::uint8_t*>(room.served));
            }
        }
        if (!ratio) {
            simd::run<PowerScales<Real>>(
                maxima, batch.blocks, &job_.power, static_cast<std::int32_t*>(room.exponents),
                static_cast<BitsOf<Real>*>(room.shift), static_cast<std::uint8_t*>(room.served));
        }
        if constexpr (encodes) {
            std::uint8_t* codes = scales_ + batch.scale;
            const int offset = job_.min_scale_code - static_cast<int>(job_.power.min);
            if (ratio) std::copy_n(room.codes, batch.blocks, codes);
            else
                std::transform(room.exponents, room.exponents + batch.blocks, codes,
                               [&](int k) { return static_cast<std::uint8_t>(k + offset); });
        }
    }

    // Writes the scale of block b to elements at .. at + count - 1 of room.spread.
    void spread(BatchRoom<Real>& room, std::size_t b, std::size_t at, std::size_t count) const {
        if (job_.ratio) {
            std::fill_n(room.spread.multiply + at, count, room.multiply[b]);
            std::fill_n(room.spread.value + at, count, room.value[b]);
        } else {
            std::fill_n(room.spread.shift + at, count, room.shift[b]);
        }
    }

    void round_run(const BlockBatch& batch, BatchRoom<Real>& room, std::size_t b,
                   std::size_t n) const {
        if (batch.columns) return round_columns(batch, room, b, n);
        const BlockPlace place = batch.place(b);
        if (place.count > batch_elements) return round_large(room, b, place);
        if (batch.uniform && place.count % block_step == 0) {
            return round_elements(room, place.first, n * place.count, place.count / block_step,
                                  room.scales(b));
        }
        std::size_t elements = 0;
        for (std::size_t k = b; k < b + n; ++k) {
            const std::size_t count = batch.counts[batch.uniform ? 0 : k];
            spread(room, k, elements, count);
            elements += count;
        }
        round_elements(room, place.first, elements, 0, room.spread.view());
    }

    // Rounds a block of more than batch_elements elements, which is alone in its batch.
    void round_large(BatchRoom<Real>& room, std::size_t b, const BlockPlace& place) const {
        const std::size_t whole = place.count - place.count % block_step;
        for (std::size_t i = 0; i < whole; i += batch_elements) {
            const std::size_t n = std::min(batch_elements, whole - i);
            round_elements(room, place.first + i, n, n / block_step, room.scales(b));
        }
        spread(room, b, 0, place.count - whole);
        if (whole < place.count)
            round_elements(room, place.first + whole, place.count - whole, 0, room.spread.view());
    }

    void round_columns(const BlockBatch& batch, BatchRoom<Real>& room, std::size_t b,
                       std::size_t n) const {
        const std::size_t rows = batch.counts[0];
        const std::size_t together =
            n == batch.stride ? std::max<std::size_t>(1, batch_elements / n) : 1;
        if (together == 1) {
            for (std::size_t row = 0; row < rows; ++row) {
                round_elements(room, batch.first + b + row * batch.stride, n, 0, room.scales(b));
            }
            return;
        }
        // Several short rows are rounded as one run.
        for (std::size_t row = 0; row < std::min(rows, together); ++row) {
            std::copy_n(room.shift, n, room.spread.shift + row * n);
            std::copy_n(room.multiply, n, room.spread.multiply + row * n);
            std::copy_n(room.value, n, room.spread.value + row * n);
        }
        for (std::size_t row = 0; row < rows; row += together) {
            round_elements(room, batch.first + row * n, std::min(together, rows - row) * n, 0,
                           room.spread.view());
        }
    }

    // Rounds at most batch_elements consecutive elements; `steps` and `scales` are as for
    // round_block_elements().
    void round_elements(BatchRoom<Real>& room, std::size_t first, std::size_t count,
                        std::size_t steps, const BlockScales<Real>& scales) const {
        const std::uint32_t* drawn = nullptr;
        if (job_.draws) {
            random_words(job_.encoder.settings.stream, job_.encoder.settings.first_element + first,
                         count, room.drawn);
            drawn = room.drawn;
        }
        if constexpr (encodes) {
            encode_block_elements<Real>(job_, in_ + first, out_ + first, count, steps, scales,
                                        drawn);
        } else {
            const bool aside = streams_ || in_ == out_;
            round_block_elements<Real>(job_, in_ + first, aside ? room.rounded : out_ + first,
                                       count, steps, scales, drawn);
            if (streams_) copy_streaming(room.rounded, out_ + first, count * sizeof(Real));
            else if (aside) std::memcpy(out_ + first, room.rounded, count * sizeof(Real));
        }
    }

    const BlockJob<Real>& job_;
    const Real* in_;
    Out* out_;
    std::uint8_t* scales_;
    bool streams_;
};

}  // namespace apscope::detail
