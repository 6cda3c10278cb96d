#include "analysis/statistics/error_windows.h"

#include <cmath>
#include <limits>

#include "core/fixed_shape_sum.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

struct FiniteErrors {
    static APSCOPE_INLINE void run(const double* x, const double* y, std::size_t count,
                                   double* error) {
        for (std::size_t i = 0; i < count; ++i) {
            const double e = y[i] - x[i];
            error[i] = e - e == 0.0 ? e : 0.0;
        }
    }
};

struct SumOfSquares {
    static APSCOPE_INLINE void run(const double* x, std::size_t count, double* sum) {
        *sum += block_sum(count, [&](std::size_t i)
                                     __attribute__((always_inline)) { return x[i] * x[i]; });
    }
};

}  // namespace

void WindowSums::stand_for_whole(double elements) {
    if (elements == 1.0) return;
    squared_error *= elements;
    noise *= elements;
    const auto of_sample = static_cast<double>(noise_blocks);
    noise_blocks = std::llround(of_sample * elements);
    // The mean over the blocks stays what it is.
    if (of_sample > 0.0) log2_over_noise *= static_cast<double>(noise_blocks) / of_sample;
}

std::size_t ErrorWindows::bytes(std::size_t elements) {
    // A step alone needs none.
    return (window_lengths.size() - 1) * (elements + noise_blocks_of(elements)) * sizeof(double);
}

void ErrorWindows::start_step(std::int64_t step, std::size_t elements) {
    const bool follows = last_ && step == *last_ + 1;
    last_ = step;
    for (std::size_t l = 0; l < lengths_.size(); ++l) {
        Length& length = lengths_[l];
        if (follows && length.done > 0) continue;
        length.done = 0;
        length.overflows = false;
        length.over = {};
        length.sums = {};
        length.sums.steps = window_lengths[l];
        length.sums.first = step;
        if (window_lengths[l] == 1) continue;
        length.error.assign(elements, 0.0);
        length.noise.assign(noise_blocks_of(elements), 0.0);
    }
}

void ErrorWindows::end_step() {
    for (Length& length : lengths_) {
        if (++length.done < length.sums.steps) continue;
        constexpr double infinity = std::numeric_limits<double>::infinity();
        length.sums.noise_blocks = static_cast<std::int64_t>(length.over.blocks);
        length.sums.log2_over_noise = length.overflows ? infinity : length.over.sum_log2;
        if (length.overflows) length.sums.squared_error = infinity;
        length.finished.push_back(length.sums);
        length.done = 0;
    }
}

void ErrorWindows::add(std::int64_t step, std::size_t elements, std::size_t first,
                       std::span<const double> reference, std::span<const double> result,
                       std::span<const double> noise, bool overflows) {
    if (first == 0) start_step(step, elements);
    const std::size_t count = result.size(), block = first / noise_block;
    error_.resize(count);
    simd::run<FiniteErrors>(reference.data(), result.data(), count, error_.data());
    for (Length& length : lengths_) {
        length.overflows = length.overflows || overflows;
        std::span<const double> error = error_, of_blocks = noise;
        if (length.sums.steps > 1) {
            double *e = length.error.data() + first, *n = length.noise.data() + block;
            for (std::size_t i = 0; i < count; ++i) e[i] += error_[i];
            for (std::size_t b = 0; b < noise.size(); ++b) n[b] += noise[b];
            error = {e, count};
            of_blocks = {n, noise.size()};
        }
        if (length.done + 1 < length.sums.steps) continue;
        simd::run<SumOfSquares>(error.data(), count, &length.sums.squared_error);
        length.sums.noise +=
            block_sum(of_blocks.size(), [&](std::size_t b) { return of_blocks[b]; });
        length.over.add_lost(error, of_blocks);  // the square of 0 - error is that of the error
    }
    if (first + count == elements) end_step();
}

std::vector<WindowSums> ErrorWindows::windows() const {
    std::vector<WindowSums> all;
    for (const Length& length : lengths_)
        all.insert(all.end(), length.finished.begin(), length.finished.end());
    return all;
}

}  // namespace apscope::detail
