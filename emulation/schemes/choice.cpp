#include "emulation/schemes/choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/bits.h"
#include "core/fixed_shape_sum.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/statistics.h"

namespace apscope::detail {

namespace {

// Finds the largest finite magnitude as a bit pattern (these patterns, read as integers, have the
// order of the magnitudes) and counts the elements that are not finite.
struct FiniteAmax {
    static APSCOPE_INLINE void run(const float* row, std::size_t count, std::uint32_t* amax,
                                   std::uint32_t* nonfinite) {
        constexpr std::uint32_t infinity = 0x7F800000u;
        std::uint32_t largest = 0, others = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t bits = bits_cast<std::uint32_t>(row[i]) & 0x7FFFFFFFu;
            // The mask has all bits set if the element is finite. It is made from the sign of a
            // difference, because compilers may turn a comparison into a branch.
            const auto mask =
                static_cast<std::uint32_t>(static_cast<std::int32_t>(bits - infinity) >> 31);
            const std::uint32_t finite = bits & mask;
            largest = largest < finite ? finite : largest;
            others += mask + 1u;
        }
        *amax = std::max(*amax, largest);
        *nonfinite = others;
    }
};

void add_sums(AgreedStatistics& agreed, std::span<const float> row) {
    for (std::size_t b = 0; b < row.size(); b += sum_block) {
        const auto finite = [&](std::size_t i) {
            return std::isfinite(row[b + i]) ? static_cast<double>(row[b + i]) : 0.0;
        };
        const std::size_t count = std::min(sum_block, row.size() - b);
        agreed.sum += block_sum(count, finite);
        agreed.sum_absolute += block_sum(count, [&](std::size_t i) { return std::abs(finite(i)); });
        agreed.sum_squares +=
            block_sum(count, [&](std::size_t i) { return finite(i) * finite(i); });
    }
}

// sum[i] += |row[i]| if row[i] is finite
struct AddMagnitudes {
    static APSCOPE_INLINE void run(const float* row, std::size_t count, double* sum) {
        constexpr float most = std::numeric_limits<float>::max();
        for (std::size_t i = 0; i < count; ++i) {
            const float magnitude = std::abs(row[i]);
            sum[i] += magnitude <= most ? magnitude : 0.0f;
        }
    }
};

double largest_sum(std::span<const std::span<const float>> rows) {
    double sums[sum_block], largest = 0.0;
    for (std::size_t b = 0; b < rows[0].size(); b += sum_block) {
        const std::size_t count = std::min(sum_block, rows[0].size() - b);
        std::fill_n(sums, count, 0.0);
        for (const std::span<const float> row : rows)
            simd::run<AddMagnitudes>(row.data() + b, count, sums);
        largest = std::max(largest, *std::max_element(sums, sums + count));
    }
    return largest;
}

}  // namespace

void add_needed(AgreedStatistics& agreed, std::span<const std::span<const float>> rows,
                const NeededStatistics& needed) {
    for (std::size_t w = 0; w < rows.size() && needed.sums; ++w) add_sums(agreed, rows[w]);
    if (needed.largest_sum) agreed.largest_sum = largest_sum(rows);
}

AgreedStatistics agreed_statistics(std::span<const std::span<const float>> rows,
                                   const NeededStatistics& needed) {
    AgreedStatistics agreed;
    agreed.elements = rows[0].size();
    std::uint32_t amax = 0;
    for (const std::span<const float> row : rows) {
        for (std::size_t b = 0; b < row.size(); b += sum_block) {
            std::uint32_t nonfinite = 0;
            simd::run<FiniteAmax>(row.data() + b, std::min(sum_block, row.size() - b), &amax,
                                  &nonfinite);
            agreed.nonfinite += nonfinite;
        }
    }
    agreed.amax = bits_cast<float>(amax);
    add_needed(agreed, rows, needed);
    return agreed;
}

void StepErrors::merge(const StepErrors& next) {
    squared_error += next.squared_error;
    squared_reference += next.squared_reference;
    log2_over_noise += next.log2_over_noise;
    noise_blocks += next.noise_blocks;
    overflow += next.overflow;
}

SelectionInput SelectionInput::with_assigned(const std::vector<char>& items) const {
    SelectionInput seen = *this;
    seen.assigned = items;
    for (std::size_t i = 0; i < items.size(); ++i)
        if (items[i] == 0) seen.statistics[i] = {.elements = statistics[i].elements};
    return seen;
}

Decision power_of_two(int exponent) { return {std::ldexp(1.0, exponent), exponent, false, {}}; }

Decision scale_of(double scale) {
    int exponent = 0;
    if (std::frexp(scale, &exponent) == 0.5) return {scale, exponent - 1, false, {}};
    return {scale, std::nullopt, false, {}};
}

std::optional<int> common_exponent(std::span<const double> scales) {
    const bool one = !scales.empty() && std::all_of(scales.begin(), scales.end(),
                                                    [&](double s) { return s == scales[0]; });
    return one ? scale_of(scales[0]).exponent : std::nullopt;
}

double fp32_bound(double amax) {
    auto bound = static_cast<float>(amax);
    if (static_cast<double>(bound) < amax)
        bound = std::nextafter(bound, std::numeric_limits<float>::infinity());
    return std::min(bound, std::numeric_limits<float>::max());
}

Decision choose_one(const Choose& choose, const TrainingStep& step, State& state,
                    const AgreedStatistics& statistics, const Lookahead* ahead) {
    return choose({1, 1, step.workers, {statistics}, {step.tensor}, {step.number}, {}, ahead},
                  state)
        .at(0);
}

Parameters choose_for(const Choose& choose, const Selection& selection,
                      const NeededStatistics& needed, const Lookahead* ahead) {
    const auto& [step, state, rows] = selection;
    AgreedStatistics s;
    s.elements = rows[0].size;
    s.nonfinite = step.nonfinite;
    for (const RowReader& row : rows) {
        for_runs(
            row, std::max<std::size_t>(row.size, 1), [&](std::size_t, std::span<const double> x) {
                s.amax = std::max(s.amax, amax_of(x));
                if (!needed.sums) return;
                s.sum += block_sum(x.size(), [&](std::size_t i) { return x[i]; });
                s.sum_absolute +=
                    block_sum(x.size(), [&](std::size_t i) { return std::abs(x[i]); });
                s.sum_squares += block_sum(x.size(), [&](std::size_t i) { return x[i] * x[i]; });
            });
    }
    s.amax = fp32_bound(s.amax);
    s.largest_sum = std::numeric_limits<double>::infinity();  // unknown: no upper bound
    const Decision d = choose_one(choose, step, state, s, ahead);
    Parameters theta;
    theta.scale = d.scale;
    theta.scale_exponent = d.exponent;
    theta.skipped = d.skipped;
    return theta;
}

}  // namespace apscope::detail
