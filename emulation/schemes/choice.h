// The choice of scales from statistics of unrounded tensors, on which the workers agree. A choice
// is made for all steps and tensors of a replay, for one step of a training loop or, inside another
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

// The statistics of one tensor at one step that the workers agree on.
struct AgreedStatistics {
    double amax = 0.0;            // largest finite |g| over all workers
    std::uint64_t nonfinite = 0;  // NaNs and infinities over all workers
    std::size_t elements = 0;     // number of elements of one worker
    // Fixed-shape sums over the finite elements of all workers; 0 unless a scheme needs them.
    double sum = 0.0, sum_absolute = 0.0, sum_squares = 0.0;
    // The largest sum over the workers, in rank order, of an element's finite |g|; 0 unless needed.
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

struct Decision {
    double scale = 1.0;           // an fp32 number or a power of two
    std::optional<int> exponent;  // s, if scale = 2^s
    bool skipped = false;         // the step is dropped
    // Bits sent for this tensor besides its codes. Not set: FloatEncoder::side_bits.
    std::optional<std::uint64_t> side_bits;
};
Decision power_of_two(int exponent);
Decision scale_of(double scale);  // sets the exponent if `scale` is a power of two
// s, if every scale is 2^s; otherwise, and for an empty span, none.
std::optional<int> common_exponent(std::span<const double> scales);

struct FloatEncoder;

// The errors of a step's sums relative to the exact sums, over several tensors: section 14 of
// docs/definitions.md. Elements whose sum or exact sum is not finite count only in `overflow`.
struct StepErrors {
    double squared_error = 0.0, squared_reference = 0.0;
    double log2_over_noise = 0.0;  // sum of log2 max(E / N, 2^-30) over the blocks with noise
    std::uint64_t noise_blocks = 0;
    std::uint64_t overflow = 0;  // sums that are not finite although the exact sum is

    void merge(const StepErrors& next);
};
// errors: those of the sums under one decision. least: a lower bound of the errors under this
// scale and every larger power of two, from the largest result and, if known, the results'
// precision; computed for the last of several decisions only.
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
    std::vector<std::int64_t> step_numbers;
    // One flag per item, that is a tensor at a step. 0: a policy gives the item to another scheme,
    // and its statistics are those of zeros. Empty: the scheme has all items.
    std::vector<char> assigned = {};
    // Needed by a scheme that looks ahead; must outlive the choice.
    const Lookahead* ahead = nullptr;
    // The number of elements of each tensor in a bucket. If a replay uses a sample of a tensor,
    // this is the size of the complete tensor. Empty: AgreedStatistics::elements.
    std::vector<std::size_t> whole_elements = {};

    const AgreedStatistics& at(std::size_t step, std::size_t tensor) const {
        return statistics[step * tensors + tensor];
    }
    bool is_assigned(std::size_t step, std::size_t tensor) const {
        return assigned.empty() || assigned[step * tensors + tensor] != 0;
    }
    // A copy of the input, in which the scheme has only these items.
    SelectionInput with_assigned(const std::vector<char>& items) const;
};

// One decision per item of the input. The memory after the last step is stored in the state, from
// which the next replay continues.
using Choose = std::function<std::vector<Decision>(const SelectionInput&, State&)>;

// The decision for one tensor at one step, from the statistics of this step alone.
Decision choose_one(const Choose& choose, const TrainingStep& step, State& state,
                    const AgreedStatistics& statistics, const Lookahead* ahead = nullptr);
// The parameters of such a decision, from statistics of rows that may have been compensated or
// transformed. needed: the sums that the choice needs.
Parameters choose_for(const Choose& choose, const Selection& selection,
                      const NeededStatistics& needed, const Lookahead* ahead = nullptr);

// The smallest fp32 number that is not below amax, at most the largest finite one. Needed for rows
// whose elements are not always fp32 numbers.
double fp32_bound(double amax);

}  // namespace apscope::detail
