// ErrorWindows: the errors of one reduction of a tensor, added up element by element over windows
// of consecutive steps (docs/definitions.md, section 16). The squared sum of k errors is k times
// the square of one step's error if errors average out, and k^2 times if they persist. It also
// compares the updates of optimizers over these windows, from the results and from the references.
//
//      run      steps whose numbers follow one another
//      window   k steps of a run, counted from its start; a rest shorter than k is not used
//
// Sums have the shape of core/fixed_shape_sum.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/statistics/update_sums.h"
#include "emulation/allreduce/batch_noise.h"
#include "emulation/machine/buffers.h"

namespace apscope::detail {

inline constexpr std::array window_lengths{1, 3, 10, 30};  // in steps

// A finished window.
struct WindowSums {
    int steps = 0;           // length of the window
    std::int64_t first = 0;  // number of its first step
    // The sum over the elements of the squared sum of the errors over the steps; infinite if a step
    // overflows.
    double squared_error = 0.0;
    double noise = 0.0;  // sum over all blocks and steps; NaN if it is unknown
    // Let E be a noise block's part of squared_error and N its noise over the steps: the sum of
    // log2(max(E / N, 2^-30)) over the blocks with N > 0, and the number of these blocks.
    double log2_over_noise = 0.0;
    std::int64_t noise_blocks = 0;
    // For windows of several steps: the updates of SGD, which are the sums of the results over the
    // steps, and those of Adam, which are these sums divided by the root of the element's mean
    // square over all steps so far.
    UpdateSums sgd, adam;

    // Scales the sums of a sample of a tensor to the complete tensor. elements: the number of
    // elements of the tensor per element of the sample.
    void stand_for_whole(double elements);
};

class ErrorWindows {
public:
    // The bytes of the sums of a tensor with this number of elements.
    static std::size_t bytes(std::size_t elements);

    // Adds elements first .. first + result.size() - 1 of `elements` at a step, in blocks in order;
    // steps ascend. A pair that is not finite counts as two zeros. noise: one value per noise
    // block of these elements; empty if it is unknown. overflows: true if a result is not finite
    // although its reference is.
    void add(std::int64_t step, std::size_t elements, std::size_t first,
             std::span<const double> reference, std::span<const double> result,
             std::span<const double> noise, bool overflows);
    // The finished windows, shorter ones first.
    std::vector<WindowSums> windows() const;

private:
    // The windows of one length.
    struct Length {
        int done = 0;  // number of finished steps of the current window
        // Sums over the steps of the window, per element or noise block. The results have sums of
        // their own: reference + error is not exactly 0 where results cancel.
        Buffer<double> error, reference, result, noise;
        bool overflows = false;
        WindowSums sums;
        OverNoise over;
        std::vector<WindowSums> finished;
    };
    void start_step(std::int64_t step, std::size_t elements);
    void end_step();
    void add_updates(Length& length, std::size_t first, std::size_t count);

    std::optional<std::int64_t> last_;  // number of the last step
    std::array<Length, window_lengths.size()> lengths_;
    // Sums of squares per element, over all steps so far.
    Buffer<double> reference_squares_, result_squares_;
    int steps_ = 0;                              // number of steps so far
    Buffer<double> error_, reference_, result_;  // of the current block
};

// The windows of every reduction of a tensor by a scheme, in the order in which they are added.
class ReductionWindows {
public:
    using Named = std::pair<std::string, ErrorWindows>;

    ErrorWindows& of(const std::string& topology) {
        for (Named& known : all_) {
            if (known.first == topology) return known.second;
        }
        return all_.emplace_back(topology, ErrorWindows()).second;
    }
    const std::vector<Named>& all() const { return all_; }

private:
    std::vector<Named> all_;
};

}  // namespace apscope::detail
