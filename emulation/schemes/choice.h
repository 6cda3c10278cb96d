// The choice of a tensor's scale from statistics of the unrounded tensor over all workers. One call
// decides for all steps and tensors of a replay, for one step of a training loop or, inside another
// scheme, for one tensor at one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// Statistics of one tensor at one step over all workers. Every worker knows them before encoding.
struct AgreedStatistics {
    double amax = 0.0;            // largest finite |g| over all workers
    std::uint64_t nonfinite = 0;  // NaNs and infinities over all workers
    std::size_t elements = 0;     // number of elements of one worker
    // Sums over the finite elements of all workers, added in a fixed order; 0 unless a scheme needs
    // them.
    double sum = 0.0, sum_absolute = 0.0, sum_squares = 0.0;
    // The maximum over the elements of the sum over the workers, in rank order, of |g|, where NaNs
    // and infinities count as 0; 0 unless a scheme needs it.
    double largest_sum = 0.0;
};

// The statistics that the schemes of a run need besides amax and the counts.
struct NeededStatistics {
    bool sums = false, largest_sum = false;
};

// Adds the needed statistics of the finite elements of these rows.
void add_needed(AgreedStatistics& agreed, std::span<const std::span<const float>> rows,
                const NeededStatistics& needed);
AgreedStatistics agreed_statistics(std::span<const std::span<const float>> rows,
                                   const NeededStatistics& needed = {});

// The scale that a choice gives one tensor at one step.
struct Decision {
    double scale = 1.0;           // an fp32 number or a power of two
    std::optional<int> exponent;  // s, if scale = 2^s
    bool skipped = false;         // true: the scheme drops the step
    // Bits sent for this tensor besides its codes; if not set, FloatEncoder::side_bits.
    std::optional<std::uint64_t> side_bits;
};
Decision power_of_two(int exponent);
Decision scale_of(double scale);  // sets the exponent if `scale` is a power of two
// Returns s if every scale is 2^s, otherwise no value; no value for an empty span too.
std::optional<int> common_exponent(std::span<const double> scales);

struct FloatEncoder;

// The errors of a step's sums relative to the exact sums, over several tensors: section 14 of
// docs/definitions.md. Elements whose sum or exact sum is not finite count only in `overflow`.
struct StepErrors {
    // Sums over the elements of (sum - exact sum)^2 and of (exact sum)^2.
    double squared_error = 0.0, squared_reference = 0.0;
    double log2_over_noise = 0.0;  // sum of log2 max(E / N, 2^-30) over the blocks with noise
    // The number of blocks with noise.
    std::uint64_t noise_blocks = 0;
    std::uint64_t overflow = 0;  // sums that are not finite although the exact sum is

    void merge(const StepErrors& next);
};
// `errors` are the errors of the sums under one decision. `least` is a lower bound of the errors
// under this scale and under every larger power of two, derived from the largest result and, if
// known, the precision of the results; it is computed for the last of several decisions only.
struct ErrorsAhead {
    StepErrors errors, least;
};

// Lets a choice try decisions: computes the sums that a decision would give, and their errors
// (lookahead.h).
class Lookahead {
public:
    // The topology of the reduction.
    virtual const Topology& topology() const = 0;
    // True if the sums over the workers of these tensors at a step are finite in every element.
    virtual bool sums_are_finite(std::size_t step, std::span<const std::size_t> tensors,
                                 const FloatEncoder& encoder, const Decision& decision) const = 0;
    // The errors of the sums of these tensors at a step, one entry per decision.
    virtual std::vector<ErrorsAhead> errors(std::size_t step, std::span<const std::size_t> tensors,
                                            const FloatEncoder& encoder,
                                            std::span<const Decision> decisions) const = 0;

protected:
    ~Lookahead() = default;
};

// All steps and tensors that a replay selects, in step order: at(step, tensor).
struct SelectionInput {
    std::size_t steps = 0, tensors = 0;
    int workers = 0;
    std::vector<AgreedStatistics> statistics;
    std::vector<std::string> names;  // names of the tensors, used by states
    // The recorded number of each step.
    std::vector<std::int64_t> step_numbers;
    // One flag per item, that is a tensor at a step. The flag is 0 if a policy assigns the item to
    // another scheme; the item's statistics are then those of a tensor of zeros. If the vector is
    // empty, all items are assigned to this scheme.
    std::vector<char> assigned = {};
    // Computes the sums of decisions that are only tried; null unless the scheme needs them. The
    // object must outlive the choice.
    const Lookahead* ahead = nullptr;
    // The number of elements of each tensor, for the sizes of buckets. If a replay uses a sample of
    // a tensor, this is the size of the complete tensor. If the vector is empty,
    // AgreedStatistics::elements is used.
    std::vector<std::size_t> whole_elements = {};

    const AgreedStatistics& at(std::size_t step, std::size_t tensor) const {
        return statistics[step * tensors + tensor];
    }
    bool is_assigned(std::size_t step, std::size_t tensor) const {
        return assigned.empty() || assigned[step * tensors + tensor] != 0;
    }
    // A copy of the input in which only these items are assigned to the scheme.
    SelectionInput with_assigned(const std::vector<char>& items) const;
};

// One decision per item of the input. The scheme's memory after the last step is stored in the
// state; the next replay continues from there.
using Choose = std::function<std::vector<Decision>(const SelectionInput&, State&)>;

// The decision for one tensor at one step, given the statistics of only this tensor and step.
Decision choose_one(const Choose& choose, const TrainingStep& step, State& state,
                    const AgreedStatistics& statistics, const Lookahead* ahead = nullptr);
// Computes the statistics of the rows of a selection, which may have been compensated or
// transformed, and returns choose_one()'s decision as parameters. needed: the sums that the choice
// uses.
Parameters choose_for(const Choose& choose, const Selection& selection,
                      const NeededStatistics& needed, const Lookahead* ahead = nullptr);

// The smallest fp32 number that is not below amax, at most the largest finite fp32 number. Rows
// that were compensated or transformed may have an amax that is not an fp32 number.
double fp32_bound(double amax);

}  // namespace apscope::detail
