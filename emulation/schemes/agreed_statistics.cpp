#include "emulation/schemes/agreed_statistics.h"

#include <algorithm>
#include <cmath>

#include "core/bits.h"
#include "core/fixed_shape_sum.h"
#include "emulation/machine/simd.h"

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

}  // namespace apscope::detail
