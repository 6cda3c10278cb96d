// The statistics of K draws of reduced rows in a replay on a GPU (row_step.h). All are computed
// from deviations from draw 0, whose sums lose no digits to cancellation. Draw d of row r is at (d
// * rows
// + r) * piece.count; the sums of deviations of row r at r * piece.count.
#pragma once

#include <cstdint>

#include "analysis/cuda/piece.h"

namespace apscope::detail {

// The sums over the draws of an element's deviations and of their squares.
struct DrawSpreadStep {
    const double* values;
    std::uint64_t elements, row_count, draws;  // elements of the piece
    double *sums, *squares;

    APSCOPE_HD std::uint64_t count() const { return row_count * elements; }
    APSCOPE_HD void operator()(std::uint64_t item) const {
        const double* y = values + item;
        double sum = 0.0, square = 0.0;
        for (std::uint64_t d = 1; d < draws; ++d) {
            const double z = y[d * count()] - y[0];
            sum += z;
            square += z * z;
        }
        sums[item] = sum;
        squares[item] = square;
    }
};

// The sums of a block for one draw: of its errors, of the variances without it, and, for draw 0, of
// the variances of all draws.
struct DrawSums {
    double error, left_out, variance;
};

// A lane of a block of draw d of row r; the sums of line (block * rows + r) are at line * draws +
// d.
struct DrawStatisticsStep {
    static constexpr int width = lanes_of_block;
    using Lane = DrawSums;

    const double* values;
    Piece piece;
    std::uint64_t row_count, draws;
    const double *reference, *sums, *squares;
    DrawSums* out;

    APSCOPE_HD std::uint64_t count() const { return row_count * draws * piece.blocks() * width; }
    APSCOPE_HD DrawSums begin(std::uint64_t item) const {
        const LaneItem at(item);
        const std::uint64_t d = at.line % draws, line = at.line / draws, row = line % row_count;
        const double number = static_cast<double>(draws);
        const double *first = values + row * piece.count, *y = first + d * row_count * piece.count,
                     *sum = sums + row * piece.count, *square = squares + row * piece.count;
        DrawSums lane{};
        piece.each(line / row_count, at.lane, [&](std::uint64_t i) {
            const double z = y[i] - first[i], s = sum[i] - z;
            lane.error += y[i] - reference[i];
            lane.left_out += ((square[i] - z * z) - s * s / (number - 1.0)) / (number - 2.0);
            if (d == 0) lane.variance += (square[i] - sum[i] * sum[i] / number) / (number - 1.0);
        });
        return lane;
    }
    APSCOPE_HD static DrawSums share(const DrawSums& lane) { return lane; }
    APSCOPE_HD static DrawSums combine(const DrawSums& a, const DrawSums& b) {
        return {a.error + b.error, a.left_out + b.left_out, a.variance + b.variance};
    }
    APSCOPE_HD void finish(std::uint64_t item, const DrawSums&, const DrawSums& all) const {
        const LaneItem at(item);
        if (at.lane == 0) out[at.line] = all;
    }
};

}  // namespace apscope::detail
