#include "emulation/allreduce/batch_noise.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "emulation/machine/row_kernels.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

// Computes the sum of (y - x)^2 over each noise block in a block of at most 4096 elements.
// Differences that are not finite count as 0.
struct SquaredDifferences {
    template <class Real>
    static APSCOPE_INLINE void run(const Real* x, const double* y, std::size_t count, double* out) {
        const auto square = [&](std::size_t i) __attribute__((always_inline)) {
            const double e = y[i] - static_cast<double>(x[i]), finite = e - e == 0.0 ? e : 0.0;
            return finite * finite;
        };
        // Reduces the lanes of each noise block to four partial sums, then adds these four, in two
        // loops that compilers vectorise.
        double quarter[noise_blocks_a_sum][4];
        const std::size_t complete = count / noise_block;
        for (std::size_t b = 0; b < complete; ++b) {
            const auto pair = [&](std::size_t lane) __attribute__((always_inline)) {
                const std::size_t i = b * noise_block + lane;
                return square(i) + square(i + sum_lanes);
            };
            for (std::size_t j = 0; j < 4; ++j)
                quarter[b][j] = (pair(j) + pair(j + 8)) + (pair(j + 4) + pair(j + 12));
        }
        for (std::size_t b = 0; b < complete; ++b)
            out[b] = (quarter[b][0] + quarter[b][2]) + (quarter[b][1] + quarter[b][3]);
        const std::size_t first = complete * noise_block;
        if (first < count)
            out[complete] =
                block_sum(count - first, [&](std::size_t i) { return square(first + i); });
    }
};

using NoiseRow = std::array<double, noise_blocks_a_sum>;
using ElementRow = std::array<double, sum_block>;

}  // namespace

void OverNoise::add(std::span<const double> reference, std::span<const double> result,
                    std::span<const double> noise) {
    NoiseRow errors;
    simd::run<SquaredDifferences>(reference.data(), result.data(), reference.size(), errors.data());
    add(product_of_ratios(errors.data(), noise.data(), noise.size()));
}

void OverNoise::add_lost(std::span<const double> reference, std::span<const double> noise) {
    static constexpr ElementRow nothing{};
    add(reference, std::span(nothing).first(reference.size()), noise);
}

BatchNoise batch_noise(std::span<const std::span<const float>> gradients, bool divide) {
    BatchNoise noise;
    const std::size_t workers = gradients.size();
    if (workers < 2) return noise;
    noise.known = true;
    const std::size_t elements = gradients[0].size();
    const double w = static_cast<double>(workers);
    noise.blocks.resize(noise_blocks_of(elements));
    if (workers > 2) {
        noise.sum_without.assign(workers, 0.0);
        noise.log2_without.assign(workers, 0.0);
    }
    // N is the variance of one worker's gradient, divided by W for a mean of gradients and
    // multiplied by W for a sum.
    const double unit = divide ? w * (w - 1.0) : (w - 1.0) / w,
                 unit_without = divide ? w * (w - 2.0) : (w - 2.0) / w;
    ElementRow reference, mean;
    std::vector<NoiseRow> of_worker(workers);
    for (std::size_t first = 0; first < elements; first += sum_block) {
        const std::size_t count = std::min(sum_block, elements - first),
                          blocks = noise_blocks_of(count);
        std::fill_n(reference.begin(), count, -0.0);  // -0 + x is x
        for (const std::span<const float> row : gradients)
            simd::run<AddWidened>(reference.data(), row.data() + first, count);
        if (divide) simd::run<DivideRow>(reference.data(), w, count);
        mean = reference;
        if (!divide) simd::run<DivideRow>(mean.data(), w, count);
        noise.squared_reference += block_sum(count, [&](std::size_t i) {
            return std::isfinite(reference[i]) ? reference[i] * reference[i] : 0.0;
        });
        NoiseRow deviations{};
        for (std::size_t j = 0; j < workers; ++j) {
            simd::run<SquaredDifferences>(gradients[j].data() + first,
                                          static_cast<const double*>(mean.data()), count,
                                          of_worker[j].data());
            for (std::size_t b = 0; b < blocks; ++b) deviations[b] += of_worker[j][b];
        }
        double* n = noise.blocks.data() + first / noise_block;
        for (std::size_t b = 0; b < blocks; ++b) {
            n[b] = deviations[b] / unit;
            noise.noisy_blocks += n[b] > 0.0;
        }
        noise.sum += block_sum(blocks, [&](std::size_t b) { return n[b]; });
        if (noise.sum_without.empty()) continue;
        // least: the smallest noise of a block without one of the workers. known: the noise n of a
        // block, or 0 if the block is lone (BatchNoise::lone_blocks).
        NoiseRow least{}, known{};
        for (std::size_t b = 0; b < blocks; ++b) least[b] = n[b];
        for (NoiseRow& left : of_worker) {
            for (std::size_t b = 0; b < blocks; ++b) {
                left[b] = std::max(deviations[b] - w / (w - 1.0) * left[b], 0.0) / unit_without;
                least[b] = std::min(least[b], left[b]);
            }
        }
        for (std::size_t b = 0; b < blocks; ++b) {
            const bool lone = least[b] < 0x1p-10 * n[b];
            known[b] = lone ? 0.0 : n[b];
            noise.lone_blocks += lone;
        }
        for (std::size_t j = 0; j < workers; ++j) {
            const NoiseRow& left = of_worker[j];
            noise.sum_without[j] += block_sum(blocks, [&](std::size_t b) { return left[b]; });
            OverNoise ratio;
            ratio.add(product_of_ratios(left.data(), known.data(), blocks));
            noise.log2_without[j] += ratio.sum_log2;
        }
    }
    return noise;
}

void BatchNoise::stand_for_whole(double elements) {
    blocks = {};
    if (elements == 1.0) return;
    const auto times = [&](std::uint64_t count) {
        return static_cast<std::uint64_t>(std::llround(static_cast<double>(count) * elements));
    };
    // The number of blocks changes, but not the mean of log2((N without w) / N) over them.
    const std::uint64_t known = noisy_blocks - lone_blocks;
    const double of_blocks = known == 0
                                 ? 0.0
                                 : static_cast<double>(times(noisy_blocks) - times(lone_blocks)) /
                                       static_cast<double>(known);
    sum *= elements;
    squared_reference *= elements;
    noisy_blocks = times(noisy_blocks);
    lone_blocks = times(lone_blocks);
    for (double& without : sum_without) without *= elements;
    for (double& without : log2_without) without *= of_blocks;
}

}  // namespace apscope::detail
