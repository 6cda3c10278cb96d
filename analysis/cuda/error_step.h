// Error statistics on a GPU, fused with the rounding: a number is read once, rounded, compared and,
// if requested, written. The sums have the shape of core/fixed_shape_sum.h, so they are those of
// analysis/statistics/error_statistics.h bit for bit. There are three steps, in which threads do
// not communicate. Each line names a step, and what one of its threads processes:
//
//      lanes     a lane: 16 threads add the 4096 elements of a block, thread j those with
//                i mod 16 = j, in order of i, so neighbouring threads read neighbouring elements
//      blocks    a block: adds its 16 lanes, lane j + 8 to lane j, then j + 4, j + 2 and j + 1
//      total     a quantity: adds the blocks in block order
//
// The first two steps store the results quantity by quantity: quantity k of place p is at k *
// places + p.
#pragma once

#include <cstdint>

#include "analysis/statistics/pair_update.h"
#include "core/fixed_shape_sum.h"
#include "emulation/cuda/allreduce/hop_rounding.h"
#include "emulation/cuda/cast/group_rounding.h"
#include "emulation/cuda/cast/nan_bits.h"

namespace apscope::detail {

// Three quantities: the sum of expected errors, the sum of variances, and the number of roundings
// without known moments.
inline constexpr int moment_sums = 3;
struct ErrorCounts {
    enum Count { counted, nonzero, underflow, subnormal, saturated, overflow, nan, infinite, size };
};

struct ErrorPartials {
    double* sums;           // error_sums quantities
    std::uint64_t* counts;  // ErrorCounts::size quantities
    double* max_ulp;
    double* moments;  // moment_sums quantities, or null
    std::uint64_t places;
};

// The moments of stochastic rounding, added up by one lane over the pairs of finite numbers.
struct MomentLane {
    double error = 0.0, variance = 0.0;
    std::uint32_t undefined = 0;

    APSCOPE_HD void add(double x, double y, const RoundingMoments& m) {
        undefined += !m.defined;
        const double e = y - x;
        if ((bits_cast<std::uint64_t>(e) & infinity_bits<double>) == infinity_bits<double>) return;
        error += m.bias;
        variance += m.variance;
    }
};

// One lane's sums and counters.
struct ErrorLane {
    double sum[error_sums] = {};
    std::uint32_t count[ErrorCounts::size] = {};
    double max_ulp = 0.0;

    APSCOPE_HD static bool finite(double v) {
        return (bits_cast<std::uint64_t>(v) & infinity_bits<double>) != infinity_bits<double>;
    }

    // Counts x if it is subnormal or saturates in the format; `code` is x scaled and rounded.
    APSCOPE_HD void add_limits(double x, double code, const FloatScale& s) {
        using C = ErrorCounts;
        count_limits(absolute(x * s.scale), absolute(code), s.smallest_normal, s.largest,
                     count[C::subnormal], count[C::saturated]);
    }

    // Adds the pair of x and its result y.
    APSCOPE_HD void add_pair(double x, double y, const FloatScale& s) {
        using C = ErrorCounts;
        if (!finite(x)) {
            count[C::nan] += x != x;  // constant indices keep the array in registers
            count[C::infinite] += x == x;
            return;
        }
        count[C::nonzero] += x != 0.0;
        count[C::underflow] += x != 0.0 && y == 0.0;
        if (!finite(y)) {
            ++count[C::overflow];
            return;
        }
        ++count[C::counted];
        const double e = y - x;
        update_sums<PairTraits{}>(x, y, e, x == 0.0, [&](int k) -> double& { return sum[k]; });
        if (x != y) {
            const double error =
                in_ulps<Ulps::scaled>(absolute(x), absolute(e), ulp_scale<Ulps::scaled>(s));
            max_ulp = error > max_ulp ? error : max_ulp;
        }
    }
};

// Rounding: a class of emulation/cuda/cast/group_rounding.h, applied to scaled numbers. Draws: true
// if the rounding is stochastic and its moments are added up.
template <class Rounding, bool Draws>
struct ErrorLaneStep {
    using Real = typename Rounding::Number;
    const float* in;
    float* out;  // may be null
    std::uint64_t elements;
    Rounding rounding;
    FloatScale scale;
    double inverse;  // 1 / scale, a power of two; 0: results are divided by the scale
    ErrorPartials partials;

    APSCOPE_HD std::uint64_t count() const {
        return (elements + sum_block - 1) / sum_block * sum_lanes;
    }
    APSCOPE_HD void operator()(std::uint64_t place) const {
        const std::uint64_t begin = place / sum_lanes * sum_block, left = elements - begin;
        const std::uint64_t end = begin + (left < sum_block ? left : std::uint64_t{sum_block});
        const auto decode = [&](double code) {
            return scale.scale == 1.0 ? code : inverse != 0.0 ? code * inverse : code / scale.scale;
        };
        ErrorLane lane;
        MomentLane moments;
        for (std::uint64_t i = begin + place % sum_lanes; i < end; i += sum_lanes) {
            const double x = in[i];
            Real value[1];
            if constexpr (sizeof(Real) == sizeof(float))
                value[0] = in[i];  // a rounding of fp32 numbers supports only scale 1
            else value[0] = x * scale.scale;
            rounding(value, i);
            const double code = value[0];
            const double y = decode(code);
            if (out != nullptr) {
                if constexpr (sizeof(Real) == sizeof(float)) out[i] = value[0];
                else out[i] = narrowed(y);
            }
            lane.add_limits(x, code, scale);
            lane.add_pair(x, y, scale);
            if constexpr (Draws) {
                const RoundingMoments m = moments_by_mode(x * scale.scale, scale.cast);
                moments.add(x, y, {decode(m.bias), decode(decode(m.variance)), m.defined});
            }
        }
        for (int k = 0; k < error_sums; ++k)
            partials.sums[static_cast<std::uint64_t>(k) * partials.places + place] = lane.sum[k];
        for (int k = 0; k < ErrorCounts::size; ++k)
            partials.counts[static_cast<std::uint64_t>(k) * partials.places + place] =
                lane.count[k];
        partials.max_ulp[place] = lane.max_ulp;
        if constexpr (Draws) {
            partials.moments[place] = moments.error;
            partials.moments[partials.places + place] = moments.variance;
            partials.moments[2 * partials.places + place] = moments.undefined;
        }
    }
};

struct ErrorBlockStep {
    ErrorPartials lanes, blocks;

    APSCOPE_HD std::uint64_t count() const { return blocks.places; }
    APSCOPE_HD void operator()(std::uint64_t block) const {
        const auto join = [&](const double* from, double* to, int quantities) {
            for (int k = 0; k < quantities; ++k) {
                LaneSums<1> sums;
                for (std::size_t j = 0; j < sum_lanes; ++j)
                    sums.lane[0][j] =
                        from[static_cast<std::uint64_t>(k) * lanes.places + block * sum_lanes + j];
                to[static_cast<std::uint64_t>(k) * blocks.places + block] = sums.join(0);
            }
        };
        join(lanes.sums, blocks.sums, error_sums);
        if (blocks.moments != nullptr) join(lanes.moments, blocks.moments, moment_sums);
        for (int k = 0; k < ErrorCounts::size; ++k) {
            std::uint64_t total = 0;
            for (std::size_t j = 0; j < sum_lanes; ++j)
                total += lanes.counts[static_cast<std::uint64_t>(k) * lanes.places +
                                      block * sum_lanes + j];
            blocks.counts[static_cast<std::uint64_t>(k) * blocks.places + block] = total;
        }
        double largest = 0.0;
        for (std::size_t j = 0; j < sum_lanes; ++j) {
            const double ulps = lanes.max_ulp[block * sum_lanes + j];
            largest = ulps > largest ? ulps : largest;
        }
        blocks.max_ulp[block] = largest;
    }
};

struct ErrorTotalStep {
    ErrorPartials blocks, total;  // `total` has one place

    APSCOPE_HD std::uint64_t count() const {
        return error_sums + ErrorCounts::size + 1 + (total.moments != nullptr ? moment_sums : 0);
    }
    APSCOPE_HD void operator()(std::uint64_t quantity) const {
        const auto add = [&](const double* from) {
            double sum = 0.0;
            for (std::uint64_t b = 0; b < blocks.places; ++b) sum += from[b];
            return sum;
        };
        if (quantity < error_sums) {
            total.sums[quantity] = add(blocks.sums + quantity * blocks.places);
        } else if (quantity < error_sums + ErrorCounts::size) {
            const std::uint64_t k = quantity - error_sums;
            std::uint64_t sum = 0;
            for (std::uint64_t b = 0; b < blocks.places; ++b)
                sum += blocks.counts[k * blocks.places + b];
            total.counts[k] = sum;
        } else if (quantity > error_sums + ErrorCounts::size) {
            const std::uint64_t k = quantity - error_sums - ErrorCounts::size - 1;
            total.moments[k] = add(blocks.moments + k * blocks.places);
        } else {
            double largest = 0.0;
            for (std::uint64_t b = 0; b < blocks.places; ++b)
                largest = blocks.max_ulp[b] > largest ? blocks.max_ulp[b] : largest;
            total.max_ulp[0] = largest;
        }
    }
};

}  // namespace apscope::detail
