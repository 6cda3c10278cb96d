// BlockAccount: what one block of an exchange adds to the statistics of its rows: the error of
// what the workers sent and of every result, where it comes from (error_split.h), and its ratio to
// the noise (batch_noise.h). Float grids and all other schemes go through it; the updates of an
// element are those of the GPU's steps (analysis/cuda/row_step.h).
//
//      start(...)         a block
//      add_sent(...)      once a worker
//      end_sent()
//      add_result(...)    once a reduced row, the exact one first
#pragma once

#include <cstddef>
#include <span>

#include "analysis/statistics/error_statistics.h"
#include "analysis/statistics/split_kernels.h"
#include "emulation/machine/buffers.h"

namespace apscope::detail {

// Of the elements of a result; empty where they have no closed form.
struct ResultMoments {
    std::span<const double> bias, variance;
    bool defined = true;
};

class BlockAccount {
public:
    // noise: of the block, or empty. splits: what is sent is the gradient, rounded to a float grid.
    void start(std::size_t count, double divisor, std::span<const double> noise, bool splits);

    // Splits the error of a worker's x, sent as y, of which `sent` has the statistics of this block
    // alone. saturated: one of split_kernels.h, or null where no element did.
    template <class Real, class Saturated>
    void add_sent(ErrorStatistics& sent, const Real* x, const Real* y, const Saturated* saturated);
    void end_sent();  // errors are then of the divided sum

    // reference, y: divided. is_exact: y is the exact sum of what was sent. The first y must stay
    // until the block ends.
    void add_result(ErrorStatistics& total, std::span<const double> reference,
                    std::span<const double> y, bool is_exact, const ResultMoments& moments,
                    const FloatScale* scale = nullptr, const ReferenceSums* known = nullptr);
    // Of a step that sends nothing.
    void add_skipped(ErrorStatistics& total, std::span<const double> reference) const;

private:
    std::size_t count_ = 0;
    double divisor_ = 1.0;
    std::span<const double> noise_;
    bool splits_ = false;
    bool classed_ = false;  // some worker's value underflowed or saturated
    const double* exact_ = nullptr;  // the exact row's result
    // What of its error is underflow and saturation; of classed blocks.
    Buffer<double> lost_, clipped_;
};

template <class Real, class Saturated>
void BlockAccount::add_sent(ErrorStatistics& sent, const Real* x, const Real* y,
                            const Saturated* saturated) {
    if (!splits_) return;
    if (sent.underflow == 0 && saturated == nullptr) {
        sent.split.sums[ErrorSplit::rounding] = sent.sums[ErrorStatistics::squared_error];
        return;
    }
    if (!classed_) {
        lost_.assign(count_, 0.0);
        clipped_.assign(count_, 0.0);
    }
    classed_ = true;
    double *lost = lost_.data(), *clipped = clipped_.data();
    if (saturated != nullptr) {
        simd::run<SplitSent<Real, Saturated>>(x, y, *saturated, count_, lost, clipped, &sent.split);
    } else {
        simd::run<SplitSent<Real, NoneSaturated>>(x, y, NoneSaturated{}, count_, lost, clipped,
                                                  &sent.split);
    }
}

}  // namespace apscope::detail
