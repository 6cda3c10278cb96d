// All-reduce over rows of numbers, which are values of a format or are first rounded to it: runs
// the hops of a topology and rounds every sum once to the accumulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/philox.h"
#include "core/projection.h"
#include "emulation/allreduce/fp32_sums.h"
#include "emulation/allreduce/reduce_scratch.h"
#include "emulation/allreduce/topology.h"
#include "emulation/arithmetic/row_cast.h"

namespace apscope::detail {

// The cast that rounds partial sums to the accumulator.
RowCast make_accumulator(const FloatFormat& format, const Projection& projection);

// Computes the message of one worker, out[i] = round(scale in[i]); stochastic rounding uses word
// first + i of the stream of Stage::wire. `scale` is an fp32 number or a power of two, so that the
// product is exact in fp64.
void encode_row(std::span<const float> in, double* out, double scale, const RowCast& cast,
                PhiloxKey key, std::uint32_t worker, std::uint64_t first);

// The bias and the variance that stochastic hops add to the sum, per element. A hop's moments are
// conditional on the partial sums that the previous hops have drawn.
struct HopMoments {
    std::span<double> bias, variance;
    bool defined = true;  // false if a draw could have overflowed
};

// Sums elements first .. first + count - 1 of rows of length n into `out` (count values). rows[w]
// points to element `first` of worker w's row. `scratch` grows as needed and may be reused.
// Kind::exact adds in fp64 without rounding to a format. Unless `moments` is null, the moments of
// the hops are added to it.
void reduce(const Topology& topology, std::span<const double* const> rows, std::size_t first,
            std::size_t count, std::size_t n, const RowCast& accumulator, PhiloxKey key,
            std::span<double> out, ReduceScratch<double>& scratch, HopMoments* moments = nullptr);

// Does the same in fp32 by the sums that fp32_sums() prepares; does not support Kind::exact. The
// moments are in units of the unscaled sums.
void reduce(const Topology& topology, std::span<const float* const> rows, std::size_t first,
            std::size_t count, std::size_t n, Fp32Sums& sums, PhiloxKey key, std::span<float> out,
            ReduceScratch<float>& scratch, HopMoments* moments = nullptr);

// The options of all_reduce(), which reduces complete fp32 arrays as apscope.allreduce does: `in`
// has one row of n values per worker, as separate arrays or one after another; with input_cast, the
// values are first rounded to `format`. The sums `out` have the accumulator's format.
struct AllReduceOptions {
    Topology topology;
    Projection projection;
    std::optional<FloatFormat> accumulate;     // the format of sums; absent: the format of values
    std::optional<RoundingMode> hop_rounding;  // of partial sums; absent: the projection's
    bool input_cast = true;
    std::uint64_t seed = 0;
    int threads = 1;
};
// The format and the projection of partial sums. checked_hops() reads both from the options and
// throws std::invalid_argument if the format does not support them.
struct HopTarget {
    FloatFormat format;
    Projection projection;
};
HopTarget checked_hops(std::size_t workers, const FloatFormat& format,
                       const AllReduceOptions& options);

void all_reduce(std::span<const std::span<const float>> in, std::span<double> out,
                const FloatFormat& format, const AllReduceOptions& options);
void all_reduce(std::span<const float> in, std::size_t workers, std::span<double> out,
                const FloatFormat& format, const AllReduceOptions& options);

}  // namespace apscope::detail
