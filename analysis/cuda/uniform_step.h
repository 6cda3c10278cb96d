// Uniform levels relative to the norm of a bucket, rounded at random, in a replay on a GPU: qsgd
// (emulation/schemes/codecs/uniform_row.h).
//
//      norm       16 lanes for a bucket    the norm of a worker's bucket, or of a sum's
//      messages   an element               a worker's value and its moments
//      sum        an element               a sum in two phases rounded and divided
//
// A shard's buckets are counted from its start, so that a bucket may lie in two pieces of an item:
// a first pass over the pieces, in order, hands the 16 lanes of such a bucket's norm on.
#pragma once

#include <cfloat>
#include <cstdint>

#include "analysis/cuda/wide_messages.h"
#include "core/philox.h"
#include "emulation/cuda/allreduce/block_phase_step.h"
#include "emulation/schemes/codecs/uniform_grid.h"

namespace apscope::detail {

// The norm of a bucket, from its lanes.
struct LaneNorm {
    BucketNorm norm;

    APSCOPE_HD double with(double lane, float x) const {
        const double size = ErrorLane::finite(x) ? widened(absolute(x)) : 0.0;
        if (norm == BucketNorm::l2) return lane + size * size;
        return size > lane ? size : lane;
    }
    APSCOPE_HD double combined(double a, double b) const {
        if (norm == BucketNorm::l2) return a + b;
        return b > a ? b : a;
    }
    // A finite fp32 number.
    APSCOPE_HD float of(double all) const {
        const double value = norm == BucketNorm::l2 ? __builtin_sqrt(all) : all;
        return narrowed(FLT_MAX < value ? FLT_MAX : value);
    }
};

// A lane with what combines it.
struct NormLane {
    LaneNorm norm;
    double value;
};
struct NormStep {
    static constexpr int width = lanes_of_block;
    using Lane = NormLane;

    APSCOPE_HD static NormLane share(const NormLane& lane) { return lane; }
    APSCOPE_HD static NormLane combine(const NormLane& a, const NormLane& b) {
        return {a.norm, a.norm.combined(a.value, b.value)};
    }
};

// The buckets divide 4096 elements.
struct UniformNormStep : NormStep {
    const float* rows;
    Piece piece;
    int workers;
    LaneNorm norm;
    std::uint64_t bucket;
    float* norms;  // a worker's buckets after those of the worker before

    APSCOPE_HD std::uint64_t buckets() const { return (piece.count + bucket - 1) / bucket; }
    APSCOPE_HD std::uint64_t count() const {
        return static_cast<std::uint64_t>(workers) * buckets() * width;
    }
    APSCOPE_HD NormLane begin(std::uint64_t item) const {
        const std::uint64_t number = item / width, first = number % buckets() * bucket,
                            past = first + bucket, end = past < piece.count ? past : piece.count;
        const float* row = rows + number / buckets() * piece.count;
        double lane = 0.0;
        for (std::uint64_t i = first + item % width; i < end; i += width)
            lane = norm.with(lane, row[i]);
        return {norm, lane};
    }
    APSCOPE_HD void finish(std::uint64_t item, const NormLane&, const NormLane& all) const {
        if (item % width == 0) norms[item / width] = norm.of(all.value);
    }
};

// The norms of the buckets of a part of a shard's sum.
struct SumNormStep : NormStep {
    ShardSum part;
    bool ends;  // the shard ends with the part
    LaneNorm norm;
    std::uint64_t bucket;
    double* lanes;  // of the part before and, behind them, of this one
    float* norms;   // of the shard's buckets

    APSCOPE_HD std::uint64_t first_bucket() const { return part.in_shard / bucket; }
    APSCOPE_HD std::uint64_t count() const {
        const std::uint64_t end = part.in_shard + part.elements;
        return ((end + bucket - 1) / bucket - first_bucket()) * width;
    }
    APSCOPE_HD NormLane begin(std::uint64_t item) const {
        const std::uint64_t first = (first_bucket() + item / width) * bucket,
                            end = part.in_shard + part.elements,
                            past = first + bucket < end ? first + bucket : end;
        double lane = first < part.in_shard ? lanes[item % width] : 0.0;
        for (std::uint64_t at = first + item % width; at < past; at += width)
            if (at >= part.in_shard) lane = norm.with(lane, part.sums[at - part.in_shard]);
        return {norm, lane};
    }
    APSCOPE_HD void finish(std::uint64_t item, const NormLane& lane, const NormLane& all) const {
        const std::uint64_t number = first_bucket() + item / width;
        if (!ends && (number + 1) * bucket > part.in_shard + part.elements)
            lanes[width + item % width] = lane.value;
        else if (item % width == 0) norms[number] = norm.of(all.value);
    }
};

struct UniformRounding {
    double levels, words;  // s; 2^N for words of N bits
    RandomStream stream;

    struct Rounded {
        double value, bias, variance;
    };
    // A finite number, by the random word with this index.
    APSCOPE_HD Rounded operator()(double g, double norm, std::uint64_t index) const {
        if (!(norm > 0.0)) return {g, 0.0, 0.0};
        const double gap = norm / levels, spread = gap * gap, size = absolute(g),
                     unclipped = levels * size / norm;
        // The norm may be rounded down, so u is clipped.
        const double u = levels < unclipped ? levels : unclipped;
        const double level = __builtin_floor(u), up = __builtin_floor((u - level) * words);
        const double word = static_cast<double>(stream.at(index) >> (64 - stream.random_bits));
        const double drawn = level + (up + word >= words ? 1.0 : 0.0), p = up / words;
        const double error = (level + p) * norm / levels - size, value = drawn * norm / levels;
        const bool negative = (bits_cast<std::uint64_t>(g) & sign_bit<double>) != 0;
        return {negative ? -value : value, g < 0.0 ? -error : error, p * (1.0 - p) * spread};
    }
};

struct UniformWireStep {
    const float* rows;
    Piece piece;
    int workers;
    UniformRounding rounding;  // of which the stream is a worker's
    std::uint64_t bucket;
    const float* norms;
    bool keeps_special;  // elements that are not finite are sent as they are, else as 0
    WideMessages messages;
    float* rounded;

    APSCOPE_HD std::uint64_t count() const {
        return static_cast<std::uint64_t>(workers) * piece.count;
    }
    APSCOPE_HD void operator()(std::uint64_t item) const {
        const std::uint64_t worker = item / piece.count, i = item % piece.count,
                            buckets = (piece.count + bucket - 1) / bucket;
        const double x = rows[item];
        UniformRounding of_worker = rounding;
        of_worker.stream.worker = static_cast<std::uint32_t>(worker);
        UniformRounding::Rounded y{keeps_special ? x : 0.0, 0.0, 0.0};
        if (ErrorLane::finite(x))
            y = of_worker(x, norms[worker * buckets + i / bucket], piece.first + i);
        rounded[item] = narrowed(y.value);
        messages.store(worker, i, y.value, y.bias + 0.0, y.variance);
    }
};

struct UniformSumStep {
    ShardSum part;
    UniformRounding rounding;  // with the stream of the shard's owner
    std::uint64_t bucket;
    const float* norms;  // of the shard's buckets
    double divisor;
    double* out;  // of the part

    APSCOPE_HD std::uint64_t count() const { return part.elements; }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        const std::uint64_t at = part.in_shard + i;
        const double sum = part.sums[i],
                     y = ErrorLane::finite(sum) ? rounding(sum, norms[at / bucket], at).value : sum;
        out[i] = y == y && divisor != 1.0 ? y / divisor : y;
    }
};

}  // namespace apscope::detail
