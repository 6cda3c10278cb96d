// The noise of the batch and its uncertainty: docs/definitions.md, section 16.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/summary/figures.h"
#include "analysis/summary/intervals.h"

namespace apscope::detail {

// A row of the table of noise: a tensor at a step, with all workers or with one left out.
struct NoiseRow {
    std::int32_t trace = 0, tensor = 0, role = 0;  // codes of the texts in NoiseTable
    std::int64_t step = 0, workers = 0;   // the step's number, and the number of all workers
    std::optional<std::int64_t> without;  // the worker that is left out; none: no worker
    // Numbers of blocks of 32 elements: all, those with noise, and those in which only one worker
    // adds noise.
    std::int64_t blocks = 0, noise_blocks = 0, lone_blocks = 0;
    // The sum of the squared reference and of the noise; for a row without a worker also the sum
    // over the blocks of the log2 of its noise divided by that of all workers.
    double squared_reference = 0, noise = 0, log2_ratio = 0;
};

// The keys by which noise is grouped.
enum class NoiseBy { trace, step, tensor, role };
// Throws std::invalid_argument for another name.
NoiseBy parse_noise_by(std::string_view name);

struct NoiseTable {
    std::vector<NoiseRow> rows;
    std::vector<std::string> traces, tensors, roles;  // the texts of the codes

    std::string cell(const NoiseRow& row, NoiseBy column) const;
};

// The noise of some rows of one trace, summed over the layers.
class Noise {
public:
    explicit Noise(const std::vector<const NoiseRow*>& rows);

    // The factors by which an `error_over_noise` of these rows is multiplied to get its corrected
    // value and both ends of its 95 % interval. The error is taken as exact; only the noise,
    // estimated from few workers, is uncertain. The jackknife over the workers, per step, gives the
    // spread; the mean log of estimates is below the log of the true value, which
    // `bias_of_log_variance` corrects. NaN for fewer than three workers.
    Interval typical() const;

    // The 95 % interval of a `pooled_error_over_noise`, by the jackknife over the workers, from the
    // squared error divided by the noise of every step. NaN for fewer than three workers, or if
    // these rows have no noise of a step.
    Interval pooled(std::vector<std::pair<std::int64_t, double>> ratio_of_step) const;

private:
    struct Step {
        std::int64_t number;
        double noise = 0.0;  // noise with all workers
        // Per left-out worker: the noise without it, and the sum over the blocks of the log2 of the
        // ratio of the noise without it to the noise with all workers.
        std::vector<double> left, log2s;
    };
    std::vector<Step> steps_;  // in ascending order
    std::int64_t noise_blocks_ = 0, lone_blocks_ = 0;
    std::size_t workers_ = 0;  // the number of workers that were left out, one at a time
};

// The noise of groups of rows, independent of schemes. For each group, in order of appearance: its
// first row, then workers, steps, blocks, blocks_without_noise, lone_blocks, noise_ratio,
// noise_scale, and the factors `low` and `high` of `Noise::typical`. The two factors are NaN for a
// group with several traces.
struct NoiseFacts {
    std::vector<std::uint32_t> first;
    Figures figures;
};
NoiseFacts noise_facts(const NoiseTable& table, std::span<const NoiseBy> by,
                       double batch_factor = 1.0);

}  // namespace apscope::detail
