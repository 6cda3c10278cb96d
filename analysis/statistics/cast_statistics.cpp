#include "analysis/statistics/cast_statistics.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "analysis/statistics/error_statistics.h"
#include "analysis/statistics/nearest_statistics.h"
#include "core/fixed_shape_sum.h"
#include "core/float_environment.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/cast/row_moments.h"
#include "emulation/cast/scaled_format.h"
#include "emulation/machine/parallel.h"
#include "emulation/machine/streaming.h"

namespace apscope::detail {

namespace {

// The data of one cast, and the buffers of one thread.
struct ArrayCast {
    QuantizeJob<float> job;
    Cast<double> wide;
    std::optional<NearestCast> nearest;
    FloatScale scale;
    RandomStream stream;
    float smallest_normal, largest;
    bool draws;
};

struct Buffers {
    alignas(64) float rounded[sum_block];
    std::vector<double> bias, variance;
};

// The statistics of one block; `out` may be null.
ErrorStatistics add_block(ArrayCast& c, Buffers& b, const float* in, float* out, bool streams,
                          std::size_t first, std::size_t count) {
    ErrorStatistics s;
    const StoreMode how = out == nullptr ? StoreMode::unused
                          : streams      ? StoreMode::streamed
                                         : StoreMode::stored;
    if (c.nearest && add_nearest(s, in, out, count, *c.nearest, how)) return s;
    float* y = out != nullptr && !streams ? out : b.rounded;
    round_row(c.job, in, y, count, c.stream, first);
    std::span<const double> bias, variance;
    if (c.draws) {
        b.bias.assign(count, 0.0);
        b.variance.assign(count, 0.0);
        s.moments_defined = add_moments(in, count, 1.0, c.wide, b.bias.data(), b.variance.data());
        bias = b.bias;
        variance = b.variance;
    }
    const std::span<const float> x(in, count), rounded(y, count);
    s.add_block<float>(x, rounded, &c.scale, bias, variance);
    s.count_limits(x, rounded, c.smallest_normal, c.largest);
    if (out != nullptr && streams) copy_streaming(y, out, count * sizeof(float));
    return s;
}

}  // namespace

ResultRow cast_statistics(std::span<const float> in, std::span<float> out,
                          const FloatFormat& format, const Projection& projection,
                          std::uint64_t seed, int threads) {
    require_fp32(format, "an array of fp32 numbers");
    validate(projection, format);
    require_counted(projection.rounding, "error statistics");
    if (!out.empty() && out.size() != in.size()) {
        throw std::invalid_argument("the output holds " + std::to_string(out.size()) +
                                    " elements, the input " + std::to_string(in.size()) +
                                    "; they must agree");
    }
    const FloatEnvironment environment;
    const Cast<double> wide = make_cast<double>(format, projection);
    const ArrayCast prepared{make_row_job(format, projection),
                             wide,
                             make_nearest_cast(format, projection),
                             {wide, 1.0, 1.0, format.smallest_normal(), format.largest()},
                             array_stream(seed, projection.drawn_bits()),
                             static_cast<float>(format.smallest_normal()),
                             static_cast<float>(format.largest()),
                             is_stochastic(projection.rounding)};
    const std::size_t n = in.size(), blocks = (n + sum_block - 1) / sum_block;
    const bool streams = !out.empty() && n * sizeof(float) >= streaming_bytes;

    // Blocks are added in order, whichever thread computed them.
    constexpr std::size_t piece = 16;  // blocks per item of the loop
    std::vector<ErrorStatistics> found(blocks);
    parallel_pieces((blocks + piece - 1) / piece, threads, [&](std::size_t p) {
        ArrayCast own = prepared;
        Buffers buffers;
        for (std::size_t b = p * piece; b < std::min(blocks, (p + 1) * piece); ++b) {
            const std::size_t first = b * sum_block, count = std::min(sum_block, n - first);
            found[b] = add_block(own, buffers, in.data() + first,
                                 out.empty() ? nullptr : out.data() + first, streams, first, count);
        }
        if (streams) finish_streaming();
    });
    ErrorStatistics total;
    for (const ErrorStatistics& block : found) total.merge(block);

    ResultRow row;
    row.wire = true;
    row.format = format.name();
    fill_columns(row, total, prepared.draws ? Moments::closed_form : Moments::deterministic, true);
    return row;
}

}  // namespace apscope::detail
