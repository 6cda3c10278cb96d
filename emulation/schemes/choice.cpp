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

// The largest magnitude as its bits, which order as magnitudes do, and how many are not finite.
struct FiniteAmax {
    static APSCOPE_INLINE void run(const float* row, std::size_t count, std::uint32_t* amax,
                                   std::uint32_t* nonfinite) {
        constexpr std::uint32_t infinity = 0x7F800000u;
        std::uint32_t largest = 0, others = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t bits = bits_cast<std::uint32_t>(row[i]) & 0x7FFFFFFFu;
            const bool is_finite = bits < infinity;
            const std::uint32_t finite = is_finite ? bits : 0u;
            largest = largest < finite ? finite : largest;
            others += is_finite ? 0u : 1u;
        }
        *amax = std::max(*amax, largest);
        *nonfinite = others;
    }
};

}  // namespace

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

AgreedStatistics agreed_statistics(std::span<const std::span<const float>> rows, bool with_sums) {
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
        if (with_sums) add_sums(agreed, row);
    }
    agreed.amax = bits_cast<float>(amax);
    return agreed;
}

SelectionInput SelectionInput::serving(const std::vector<char>& items) const {
    SelectionInput seen = *this;
    seen.served = items;
    for (std::size_t i = 0; i < items.size(); ++i)
        if (items[i] == 0) seen.statistics[i] = {0.0, 0, statistics[i].elements};
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

Parameters choose_for(const Choose& choose, const Selection& given) {
    const auto& [step, state, rows] = given;
    AgreedStatistics s;
    s.elements = rows[0].size;
    s.nonfinite = step.nonfinite;
    for (const RowReader& row : rows) {
        for_runs(row, std::max<std::size_t>(row.size, 1),
                 [&](std::size_t, std::span<const double> x) {
            s.amax = std::max(s.amax, amax_of(x));
            s.sum += block_sum(x.size(), [&](std::size_t i) { return x[i]; });
            s.sum_absolute += block_sum(x.size(), [&](std::size_t i) { return std::abs(x[i]); });
            s.sum_squares += block_sum(x.size(), [&](std::size_t i) { return x[i] * x[i]; });
        });
    }
    s.amax = fp32_bound(s.amax);
    const Decision d = choose({1, 1, step.workers, {s}, {step.tensor}, {step.number}}, state).at(0);
    Parameters theta;
    theta.scale = d.scale;
    theta.scale_exponent = d.exponent;
    theta.skipped = d.skipped;
    return theta;
}

}  // namespace apscope::detail
