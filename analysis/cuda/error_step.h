// Error statistics on a GPU, fused with the rounding: a number is read once, rounded, compared and,
// if requested, written. The sums have the shape of core/fixed_shape_sum.h, so they are those of
// analysis/statistics/error_statistics.h bit for bit. There are two steps:
//
//      lanes     16 threads add the 4096 elements of a block, thread j those with i mod 16 = j, in
//                order of i, and then add their lanes in a group (machine/lane_group.h), whose
//                order is that of the sums: lane j + 8 to lane j, then j + 4, j + 2 and j + 1
//      total     a thread per sum and per count adds the blocks, in block order
//
// At one time 16 threads read 64 bytes side by side, two complete sectors of the memory, so that
// loads of 4 bytes a thread waste nothing, and the numbers need not change threads.
#pragma once

#include <cstdint>
#include <type_traits>

#include "analysis/cuda/error_totals.h"
#include "core/fixed_shape_sum.h"
#include "emulation/cuda/cast/group_rounding.h"
#include "emulation/cuda/cast/nan_bits.h"

namespace apscope::detail {

// Rounding: a class of emulation/cuda/cast/group_rounding.h for fp32 numbers. Draws: true
// if the rounding is stochastic and its moments are added up.
template <class Rounding, bool Draws>
struct ErrorBlockStep {
    static constexpr int width = sum_lanes;
    // All roundings other than the rule round to regular formats.
    static constexpr bool is_narrow = !std::is_same_v<Rounding, RuleRounding<float>>;
    // The number of elements that a lane loads and rounds at a time. Stochastic roundings draw the
    // words of neighbouring elements, which are in other lanes.
    static constexpr int rows = Draws ? 1 : 8;
    struct Lane {
        ErrorLane pairs;
        MomentLane moments;
    };

    const float* in;
    float* out;  // may be null
    std::uint64_t elements;
    Rounding rounding;
    FloatScale scale;
    NarrowLimits limits;
    ErrorBlock* blocks;

    APSCOPE_HD std::uint64_t count() const {
        return (elements + sum_block - 1) / sum_block * sum_lanes;
    }
    APSCOPE_HD Lane begin(std::uint64_t place) const {
        const std::uint64_t first = place / sum_lanes * sum_block, left = elements - first;
        const int lane = static_cast<int>(place % sum_lanes),
                  size = static_cast<int>(left < sum_block ? left : sum_block);
        if constexpr (is_narrow) return add_narrow(first, lane, size);
        else return add_any(first, lane, size);
    }
    APSCOPE_HD ErrorBlock share(const Lane& lane) const {
        return totals_of(lane.pairs, lane.moments);
    }
    APSCOPE_HD ErrorBlock combine(const ErrorBlock& a, const ErrorBlock& b) const {
        return combined(a, b);
    }
    APSCOPE_HD void finish(std::uint64_t place, const Lane&, const ErrorBlock& all) const {
        if (place % sum_lanes == 0) blocks[place / sum_lanes] = all;
    }

private:
    // Both add the elements lane, lane + 16, ... of the `size` elements from `first` on.
    APSCOPE_HD Lane add_narrow(std::uint64_t first, int lane, int size) const {
        constexpr int stride = sum_lanes;
        NarrowLane pairs;
        MomentLane moments;
        std::uint32_t added = 0, missing = 0;
        for (int i = lane; i < size; i += rows * stride) {
            const bool is_whole = i + (rows - 1) * stride < size;
            const std::uint64_t at = first + static_cast<std::uint64_t>(i);
            float x[rows], y[rows];
            if (is_whole) {
                for (int r = 0; r < rows; ++r) x[r] = in[at + r * stride];
            } else {
                for (int r = 0; r < rows; ++r) {
                    const bool is_missing = i + r * stride >= size;
                    x[r] = is_missing ? 0.0f : in[at + r * stride];
                    missing += is_missing;
                }
            }
            for (int r = 0; r < rows; ++r) y[r] = x[r];
            rounding(y, at);
            if (out != nullptr && is_whole) {
                for (int r = 0; r < rows; ++r) out[at + r * stride] = y[r];
            } else if (out != nullptr) {
                for (int r = 0; r < rows && i + r * stride < size; ++r) out[at + r * stride] = y[r];
            }
            if constexpr (Draws) {
                const double number = x[0];
                moments.add(number, y[0], moments_by_mode(number, scale.cast));
            }
            pairs.add(x, y, limits);
            added += rows;
        }
        return {pairs.get(added, missing), moments};
    }
    APSCOPE_HD Lane add_any(std::uint64_t first, int lane, int size) const {
        Lane sums;
        for (int at = lane; at < size; at += static_cast<int>(sum_lanes)) {
            const std::uint64_t i = first + static_cast<std::uint64_t>(at);
            float value[1] = {in[i]};
            rounding(value, i);
            if (out != nullptr) out[i] = value[0];
            const double x = in[i], y = value[0];
            sums.pairs.add_limits(x, y, scale);
            sums.pairs.add_pair(x, y, scale);
            if constexpr (Draws) sums.moments.add(x, y, moments_by_mode(x, scale.cast));
        }
        return sums;
    }
};

// A thread per total: a sum adds the blocks' sums in block order, a count adds their counts, and
// the largest error is the largest of theirs. Each kind has a warp of its own, because threads of
// one warp that take different branches run one after another.
struct ErrorTotalStep {
    static constexpr std::uint64_t warp = 32;
    enum Kind : std::uint64_t { sums, counts, undefined, max_ulp, kinds };
    using Totals = ErrorTotals<std::uint64_t>;
    static_assert(all_error_sums <= warp && ErrorCounts::size <= warp);

    const ErrorBlock* blocks;
    std::uint64_t block_count;
    Totals* total;

    APSCOPE_HD std::uint64_t count() const { return kinds * warp; }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        const std::uint64_t kind = i / warp, k = i % warp;
        const auto sum = [](auto a, auto b) { return a + b; };
        const auto largest = [](double a, double b) { return b > a ? b : a; };
        if (kind == sums && k < all_error_sums) {
            total->sum[k] = joined<double>([k](const ErrorBlock& b) { return b.sum[k]; }, sum);
        } else if (kind == counts && k < ErrorCounts::size) {
            total->count[k] =
                joined<std::uint64_t>([k](const ErrorBlock& b) { return b.count[k]; }, sum);
        } else if (kind == undefined && k == 0) {
            total->undefined =
                joined<std::uint64_t>([](const ErrorBlock& b) { return b.undefined; }, sum);
        } else if (kind == max_ulp && k == 0) {
            total->max_ulp = joined<double>([](const ErrorBlock& b) { return b.max_ulp; }, largest);
        }
    }

private:
    // join(join(0, part of block 0), part of block 1) and so on. A read from the cache takes as
    // long as 30 additions, each of which needs the one before: the next `ahead` parts are read
    // while the ones before are joined.
    template <class Total, class Part, class Join>
    APSCOPE_HD Total joined(const Part& part, const Join& join) const {
        constexpr std::uint64_t ahead = 48;
        decltype(part(*blocks)) next[ahead];
        Total all{};
        std::uint64_t b = 0;
        const auto read = [&](std::uint64_t from) {
            for (std::uint64_t j = 0; j < ahead; ++j) next[j] = part(blocks[from + j]);
        };
        if (block_count >= ahead) read(0);
        for (; b + ahead <= block_count; b += ahead) {
            decltype(part(*blocks)) now[ahead];
            for (std::uint64_t j = 0; j < ahead; ++j) now[j] = next[j];
            if (b + 2 * ahead <= block_count) read(b + ahead);
            for (std::uint64_t j = 0; j < ahead; ++j) all = join(all, Total{now[j]});
        }
        for (; b < block_count; ++b) all = join(all, Total{part(blocks[b])});
        return all;
    }
};

}  // namespace apscope::detail
