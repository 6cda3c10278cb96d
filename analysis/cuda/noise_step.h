// The work of GPU threads for the noise of the batch in a replay (row_step.h): the squared errors
// of the noise blocks of reduced rows, and the products of their ratios to the noise
// (emulation/allreduce/batch_noise.h).
#pragma once

#include <cstdint>

#include "analysis/cuda/piece.h"
#include "emulation/allreduce/batch_noise.h"

namespace apscope::detail {

// Computes the squared errors of every noise block of a piece: block b of a line is at line * 128 +
// b.
struct NoiseErrorStep {
    static constexpr int width = lanes_of_block;
    static_assert(noise_block == 2 * sum_lanes);  // a lane adds two elements
    using Lane = double;

    const double *reference, *results;  // row r of the results begins at r * piece.count
    Piece piece;
    std::uint64_t row_count;
    double* out;

    APSCOPE_HD std::uint64_t count() const {
        return row_count * piece.blocks() * noise_blocks_a_sum * width;
    }
    APSCOPE_HD std::uint64_t first_of(std::uint64_t noise_block_of_line) const {
        return noise_block_of_line / noise_blocks_a_sum / row_count * sum_block +
               noise_block_of_line % noise_blocks_a_sum * noise_block;
    }
    APSCOPE_HD double begin(std::uint64_t item) const {
        const LaneItem at(item);
        const double* y = results + at.line / noise_blocks_a_sum % row_count * piece.count;
        const std::uint64_t i = first_of(at.line) + at.lane;
        const auto square = [&](std::uint64_t k) {
            const double e = y[k] - reference[k], finite = e - e == 0.0 ? e : 0.0;
            return finite * finite;
        };
        if (i >= piece.count) return 0.0;
        const double sum = square(i);
        return i + sum_lanes < piece.count ? sum + square(i + sum_lanes) : sum;
    }
    APSCOPE_HD static double share(double lane) { return lane; }
    APSCOPE_HD static double combine(double a, double b) { return a + b; }
    APSCOPE_HD void finish(std::uint64_t item, double, double all) const {
        const LaneItem at(item);
        if (at.lane == 0 && first_of(at.line) < piece.count) out[at.line] = all;
    }
};

// Computes the product of the ratios of every line.
struct NoiseRatioStep {
    static constexpr int width = lanes_of_block;
    using Lane = RatioProduct;

    const double *errors, *noise;
    Piece piece;
    std::uint64_t row_count;
    RatioProduct* out;

    APSCOPE_HD std::uint64_t count() const { return row_count * piece.blocks() * width; }
    APSCOPE_HD RatioProduct begin(std::uint64_t item) const {
        const LaneItem at(item);
        const std::uint64_t block = at.line / row_count, left = piece.count - block * sum_block;
        const std::uint64_t blocks = noise_blocks_of(left < sum_block ? left : sum_block);
        RatioProduct product;
        for (std::uint64_t b = at.lane; b < blocks; b += sum_lanes)
            product.multiply(errors[at.line * noise_blocks_a_sum + b],
                             noise[block * noise_blocks_a_sum + b]);
        return product;
    }
    APSCOPE_HD static RatioProduct share(const RatioProduct& lane) { return lane; }
    APSCOPE_HD static RatioProduct combine(const RatioProduct& a, const RatioProduct& b) {
        return RatioProduct::combined(a, b);
    }
    APSCOPE_HD void finish(std::uint64_t item, const RatioProduct&, const RatioProduct& all) const {
        const LaneItem at(item);
        if (at.lane == 0) out[at.line] = all;
    }
};

}  // namespace apscope::detail
