#include "analysis/statistics/error_windows.h"

#include <cmath>

#include "analysis/statistics/quotients.h"
#include "core/fixed_shape_sum.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

// Computes the errors, the references and the results, and adds the squares of x and y to their
// sums. A pair that is not finite counts as two zeros.
struct FinitePairs {
    static APSCOPE_INLINE void run(const double* x, const double* y, std::size_t count,
                                   double* error, double* reference, double* result,
                                   double* squares_of_x, double* squares_of_y) {
        for (std::size_t i = 0; i < count; ++i) {
            const double e = y[i] - x[i];
            const bool finite = e - e == 0.0;
            error[i] = finite ? e : 0.0;
            reference[i] = finite ? x[i] : 0.0;
            result[i] = finite ? y[i] : 0.0;
            squares_of_x[i] += finite ? x[i] * x[i] : 0.0;
            squares_of_y[i] += finite ? y[i] * y[i] : 0.0;
        }
    }
};

// Divides u by the root of each sum of squares; where that sum is 0, u becomes 0.
struct DivideByRoots {
    static APSCOPE_INLINE void run(const double* squares, std::size_t count, double* u) {
        for (std::size_t i = 0; i < count; ++i)
            u[i] = squares[i] > 0.0 ? u[i] / std::sqrt(squares[i]) : 0.0;
    }
};

struct SumOfProducts {
    static APSCOPE_INLINE void run(const double* x, const double* y, std::size_t count,
                                   double* sum) {
        *sum += block_sum(count, [&](std::size_t i)
                                     __attribute__((always_inline)) { return x[i] * y[i]; });
    }
};

}  // namespace

void WindowSums::stand_for_whole(double elements) {
    if (elements == 1.0) return;
    squared_error *= elements;
    noise *= elements;
    sgd.multiply(elements);
    adam.multiply(elements);
    const auto of_sample = static_cast<double>(noise_blocks);
    noise_blocks = std::llround(of_sample * elements);
    // The sum is scaled so that the mean over the blocks does not change.
    if (of_sample > 0.0) log2_over_noise *= static_cast<double>(noise_blocks) / of_sample;
}

std::size_t ErrorWindows::bytes(std::size_t elements) {
    // Windows of one step need no sums; all lengths share the sums of squares.
    const std::size_t of_length = 3 * elements + noise_blocks_of(elements);
    return ((window_lengths.size() - 1) * of_length + 2 * elements) * sizeof(double);
}

void ErrorWindows::start_step(std::int64_t step, std::size_t elements) {
    const bool follows = last_ && step == *last_ + 1;
    last_ = step;
    ++steps_;
    reference_squares_.resize(elements, 0.0);
    result_squares_.resize(elements, 0.0);
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
        length.sums.sgd = length.sums.adam = {0.0, 0.0, 0.0};
        length.error.assign(elements, 0.0);
        length.reference.assign(elements, 0.0);
        length.result.assign(elements, 0.0);
        length.noise.assign(noise_blocks_of(elements), 0.0);
    }
}

void ErrorWindows::end_step() {
    for (Length& length : lengths_) {
        if (++length.done < length.sums.steps) continue;
        length.sums.noise_blocks = static_cast<std::int64_t>(length.over.blocks);
        length.sums.log2_over_noise = length.overflows ? infinity : length.over.sum_log2;
        if (length.overflows) length.sums.squared_error = infinity;
        // Adam divides by the root of the mean of the squares, but add_updates() divided by the
        // root of their sum; the products of two updates are corrected by the number of steps.
        length.sums.adam.multiply(static_cast<double>(steps_));
        length.finished.push_back(length.sums);
        length.done = 0;
    }
}

void ErrorWindows::add_updates(Length& length, std::size_t first, std::size_t count) {
    // The updates of SGD. Adam's take their place below: the window ends here, and the next one
    // begins with new sums.
    double *u = length.reference.data() + first, *v = length.result.data() + first;
    const auto add_to = [&](UpdateSums& sums) {
        simd::run<SumOfProducts>(u, v, count, &sums.product);
        simd::run<SumOfProducts>(u, u, count, &sums.squared_reference);
        simd::run<SumOfProducts>(v, v, count, &sums.squared_result);
    };
    add_to(length.sums.sgd);
    simd::run<DivideByRoots>(reference_squares_.data() + first, count, u);
    simd::run<DivideByRoots>(result_squares_.data() + first, count, v);
    add_to(length.sums.adam);
}

void ErrorWindows::add(std::int64_t step, std::size_t elements, std::size_t first,
                       std::span<const double> reference, std::span<const double> result,
                       std::span<const double> noise, bool overflows) {
    if (first == 0) start_step(step, elements);
    const std::size_t count = result.size(), block = first / noise_block;
    error_.resize(count);
    reference_.resize(count);
    result_.resize(count);
    simd::run<FinitePairs>(reference.data(), result.data(), count, error_.data(), reference_.data(),
                           result_.data(), reference_squares_.data() + first,
                           result_squares_.data() + first);
    for (Length& length : lengths_) {
        length.overflows = length.overflows || overflows;
        std::span<const double> error = error_, of_blocks = noise;
        if (length.sums.steps > 1) {
            double *e = length.error.data() + first, *x = length.reference.data() + first,
                   *y = length.result.data() + first, *n = length.noise.data() + block;
            for (std::size_t i = 0; i < count; ++i) e[i] += error_[i];
            for (std::size_t i = 0; i < count; ++i) x[i] += reference_[i];
            for (std::size_t i = 0; i < count; ++i) y[i] += result_[i];
            for (std::size_t b = 0; b < noise.size(); ++b) n[b] += noise[b];
            error = {e, count};
            of_blocks = {n, noise.size()};
        }
        if (length.done + 1 < length.sums.steps) continue;
        simd::run<SumOfProducts>(error.data(), error.data(), count, &length.sums.squared_error);
        if (length.sums.steps > 1) add_updates(length, first, count);
        if (noise.empty()) {
            length.sums.noise = missing;
            continue;
        }
        length.sums.noise +=
            block_sum(of_blocks.size(), [&](std::size_t b) { return of_blocks[b]; });
        length.over.add_lost(error, of_blocks);  // adds the squares of 0 - error
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
