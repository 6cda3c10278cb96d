// The noise of the batch, and errors in its unit (docs/definitions.md, section 16). Workers draw
// their batches independently, so the scatter of the workers' gradients estimates the distance
// between the mean of these gradients and the gradient of all data.
//
//      noise block   32 consecutive elements, counted from the start of the tensor; the last is
//                    shorter
//      D[w]          sum over the block of (g[w] - m)^2, m the mean of the workers, in fp64
//      N             sum over w of D[w] / (W (W - 1)): the variance of m; for a sum of gradients
//                    W^2 times that
//      q             max(E / N, 2^-30), E the sum over the block of the squared error of a result
//
// Sums of a noise block: element i adds to lane i mod 16 in order of i; lanes join as in
// core/fixed_shape_sum.h. Sums of log2 q add the exponents of q as integers and multiply the
// significands, so they need few logarithms, which fixed_log2.h computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/bits.h"
#include "core/fixed_log2.h"
#include "core/fixed_shape_sum.h"

namespace apscope::detail {

inline constexpr std::size_t noise_block = 32;
inline constexpr std::size_t noise_blocks_a_sum = sum_block / noise_block;
APSCOPE_HD std::size_t noise_blocks_of(std::size_t elements) {
    return (elements + noise_block - 1) / noise_block;
}

// A product of ratios q, before its logarithm is taken. The significands of 128 ratios multiply to
// less than 2^128.
struct RatioProduct {
    double significand = 1.0;   // product of the significands
    std::int64_t exponent = 0;  // sum of the exponents
    std::uint64_t blocks = 0;

    // Multiplies by q of a noise block, unless its N is 0.
    APSCOPE_HD void multiply(double error, double noise) {
        if (!(noise > 0.0)) return;
        const double ratio = error / noise, q = ratio > 0x1p-30 ? ratio : 0x1p-30;
        const std::uint64_t bits = bits_cast<std::uint64_t>(q);
        significand *=
            bits_cast<double>((bits & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1023} << 52);
        exponent += static_cast<std::int64_t>(bits >> 52) - 1023;
        ++blocks;
    }
    APSCOPE_HD static RatioProduct combined(const RatioProduct& a, const RatioProduct& b) {
        return {a.significand * b.significand, a.exponent + b.exponent, a.blocks + b.blocks};
    }
};

// The product of q over at most 128 noise blocks, without the blocks with N = 0: block b multiplies
// lane b mod 16, in order of b. The lanes are combined in the order of join_lanes().
inline RatioProduct product_of_ratios(const double* errors, const double* noise,
                                      std::size_t count) {
    RatioProduct lane[sum_lanes];
    for (std::size_t b = 0; b < count; ++b) lane[b % sum_lanes].multiply(errors[b], noise[b]);
    for (std::size_t width = sum_lanes / 2; width > 0; width /= 2) {
        for (std::size_t j = 0; j < width; ++j)
            lane[j] = RatioProduct::combined(lane[j], lane[j + width]);
    }
    return lane[0];
}

// The ratio of error and noise, as a sum of log2 q over noise blocks.
struct OverNoise {
    double sum_log2 = 0.0;     // sum of log2 q
    std::uint64_t blocks = 0;  // noise blocks with N > 0

    void add(const RatioProduct& product) {
        if (product.blocks == 0) return;
        sum_log2 += static_cast<double>(product.exponent) + fixed_log2(product.significand);
        blocks += product.blocks;
    }
    // Adds one block of at most 4096 elements. The error of an element counts as 0 if `reference`
    // or `result` is not finite there; `noise` has N of every noise block.
    void add(std::span<const double> reference, std::span<const double> result,
             std::span<const double> noise);
    // Does the same for a lost result, which counts as 0 everywhere.
    void add_lost(std::span<const double> reference, std::span<const double> noise);
    void merge(const OverNoise& next) {
        sum_log2 += next.sum_log2;
        blocks += next.blocks;
    }
};

// The noise of one tensor at one step, as a squared error of R, the sum or the mean of the
// gradients. An element counts as noise 0 if any worker's gradient is not finite there.
struct BatchNoise {
    bool known = false;  // true with two or more workers, also for a tensor without elements
    std::vector<double> blocks;      // N of every noise block
    double sum = 0.0;                // sum of N
    double squared_reference = 0.0;  // the sum of R^2 over the finite elements
    std::uint64_t noisy_blocks = 0;  // noise blocks with N > 0
    // Noise blocks with nearly all noise from one worker: without this worker, less than 2^-10 of N
    // remains.
    std::uint64_t lone_blocks = 0;
    // For the jackknife: sums in which N is estimated without worker w, but is still the variance
    // of the sum or the mean of W workers. Empty for W = 2.
    std::vector<double> sum_without;  // sum of N without w
    // The sum of log2((N without w) / N) over the noisy blocks that are not lone.
    std::vector<double> log2_without;

    // Scales the sums of a sample to the whole tensor, which has `elements` times as many elements.
    // Afterwards the noise per block is unknown.
    void stand_for_whole(double elements);
};
// N of the noise blocks of elements first .. first + count - 1, where `first` begins a noise block;
// empty if N is unknown.
inline std::span<const double> noise_of(const BatchNoise* noise, std::size_t first,
                                        std::size_t count) {
    if (noise == nullptr || noise->blocks.empty()) return {};
    return std::span(noise->blocks).subspan(first / noise_block, noise_blocks_of(count));
}
// Computes the noise of one row of gradients per worker; `divide` selects the mean, else the sum.
BatchNoise batch_noise(std::span<const std::span<const float>> gradients, bool divide);

}  // namespace apscope::detail
