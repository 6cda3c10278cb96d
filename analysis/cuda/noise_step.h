// The work of GPU threads for the noise of the batch in a replay (row_step.h): the squared errors
// of the noise blocks of reduced rows, and the products of their ratios to the noise
// (emulation/allreduce/batch_noise.h).
#pragma once

#include <cstdint>

#include "core/fixed_shape_sum.h"
#include "core/host_device.h"
#include "emulation/allreduce/batch_noise.h"

namespace apscope::detail {

// Elements first .. first + count - 1 of a row of `elements`; the first is the beginning of a
// block.
struct Piece {
    std::uint64_t elements, first, count;

    APSCOPE_HD std::uint64_t blocks() const { return (count + sum_block - 1) / sum_block; }
    APSCOPE_HD std::uint64_t places() const { return blocks() * sum_lanes; }
    // Not static, although it could be, because callers use it together with end(), which is not.
    // NOLINTNEXTLINE(readability-convert-member-functions-to-static)
    APSCOPE_HD std::uint64_t begin(std::uint64_t place) const {
        return place / sum_lanes * sum_block + place % sum_lanes;
    }
    APSCOPE_HD std::uint64_t end(std::uint64_t place) const {
        const std::uint64_t next = (place / sum_lanes + 1) * sum_block;
        return next < count ? next : count;
    }
};

// One lane's part of the squared errors of noise blocks: for each block the sum of the squares of
// the lane's two elements, or of one in an incomplete last block. Successive sums are `pitch` apart
// in `out`.
struct NoiseLane {
    double* out;
    std::uint64_t pitch;
    bool second = false;

    APSCOPE_HD void add(double error) {
        const double finite = error - error == 0.0 ? error : 0.0;
        if (!second) *out = finite * finite;
        else {
            *out += finite * finite;
            out += pitch;
        }
        second = !second;
    }
};

// Computes the squared errors of every noise block of a piece: block b of row r is at (r * blocks +
// b / 128) * 128 + b % 128.
struct NoiseErrorStep {
    const double* squares;
    Piece piece;
    std::uint64_t row_count;
    double* out;

    APSCOPE_HD std::uint64_t count() const {
        return row_count * piece.blocks() * noise_blocks_a_sum;
    }
    APSCOPE_HD void operator()(std::uint64_t item) const {
        const std::uint64_t lines = row_count * piece.blocks(), line = item % lines,
                            b = item / lines;
        const std::uint64_t first = line % piece.blocks() * sum_block + b * noise_block;
        if (first >= piece.count) return;
        double lane[sum_lanes];
        for (std::uint64_t j = 0; j < sum_lanes; ++j)
            lane[j] = first + j < piece.count ? squares[(b * lines + line) * sum_lanes + j] : 0.0;
        out[line * noise_blocks_a_sum + b] = join_lanes(lane);
    }
};

// Computes the product of the ratios of a line, that is of one block of one row: its quantity q
// (exponent, significand or number of noise blocks) is at q * lines + line.
struct NoiseRatioStep {
    const double *errors, *noise;
    Piece piece;
    std::uint64_t row_count;
    double* out;

    APSCOPE_HD std::uint64_t count() const { return row_count * piece.blocks(); }
    APSCOPE_HD void operator()(std::uint64_t line) const {
        const std::uint64_t block = line % piece.blocks(), left = piece.count - block * sum_block;
        const std::uint64_t elements = left < sum_block ? left : sum_block;
        const RatioProduct product =
            product_of_ratios(errors + line * noise_blocks_a_sum,
                              noise + block * noise_blocks_a_sum, noise_blocks_of(elements));
        out[line] = static_cast<double>(product.exponent);
        out[count() + line] = product.significand;
        out[2 * count() + line] = static_cast<double>(product.blocks);
    }
};

}  // namespace apscope::detail
