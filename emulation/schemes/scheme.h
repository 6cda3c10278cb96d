// A scheme: the processing of gradients between the workers' buffers and the reduced result. Ten
// steps (docs/schemes.md): partition, compensate, transform, statistic, agree, select, encode,
// reduce, decode, update. It is one of three kinds:
//
//      FloatScheme     scales a tensor and rounds it to a float grid: data, and the function that
//      chooses the scales TensorScheme    works on whole tensors, as parts (tensor_scheme.h) Policy
//      gives every tensor and step to one of several schemes (policy.h)
//
// No scheme owns a loop over elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/float_format.h"
#include "core/projection.h"
#include "emulation/schemes/policy.h"
#include "emulation/schemes/tensor_scheme.h"

namespace apscope::detail {

struct FloatGrid {
    FloatFormat format;
    Projection projection;

    friend bool operator==(const FloatGrid&, const FloatGrid&) = default;
};
std::uint64_t payload_bits(const FloatGrid& grid, std::size_t elements);
bool is_stochastic(const FloatGrid& grid);

// Reduction
// ----------------------------------------------------------------------------------------

enum class Collective {
    all_reduce,  // one scale for all workers; partial sums are rounded to the accumulator
    all_gather,  // codes are gathered, decoded and added in fp32, in rank order
};

struct Reduction {
    Collective collective = Collective::all_reduce;
    bool exact = false;  // accumulate=exact: every topology gives the fp64 sum
    FloatFormat accumulate;  // the format partial sums are rounded to
    Projection projection;  // with the hops' rounding

    static Reduction gathered();
    friend bool operator==(const Reduction&, const Reduction&) = default;
};

// Selection
// ----------------------------------------------------------------------------------------

// The statistics of one tensor at one step that the workers agree on.
struct AgreedStatistics {
    double amax = 0.0;  // largest finite |g| over all workers
    std::uint64_t nonfinite = 0;  // NaNs and infinities over all workers
    std::size_t elements = 0;  // of one worker
    // Fixed-shape sums over the finite elements of all workers; 0 unless a scheme needs them.
    double sum = 0.0, sum_absolute = 0.0, sum_squares = 0.0;
};

// All steps and tensors that a replay selects, in step order: at(step, tensor).
struct SelectionInput {
    std::size_t steps = 0, tensors = 0;
    int workers = 0;
    std::vector<AgreedStatistics> statistics;
    std::vector<std::string> names;  // of the tensors, to which a state refers
    std::vector<std::int64_t> step_numbers;
    // Per item, if a policy gives some to other schemes: those count as zeros.
    std::vector<char> served = {};
    const AgreedStatistics& at(std::size_t step, std::size_t tensor) const {
        return statistics[step * tensors + tensor];
    }
    bool serves(std::size_t step, std::size_t tensor) const {
        return served.empty() || served[step * tensors + tensor] != 0;
    }
};

struct Decision {
    double scale = 1.0;  // an fp32 number or a power of two
    std::optional<int> exponent;  // s if scale = 2^s
    bool skipped = false;  // the step is dropped
    // Of this tensor, where they are not the scheme's for every one.
    std::optional<std::uint64_t> side_bits;
};
Decision power_of_two(int exponent);
Decision scale_of(double scale);  // finds the exponent if there is one
std::optional<int> common_exponent(
    std::span<const double> scales);  // s if there are some and all are 2^s

// One decision per item of the input. Memory beyond the last step goes into the state, from which
// the next replay continues.
using Select = std::function<std::vector<Decision>(const SelectionInput&, State&)>;

// The scheme
// ---------------------------------------------------------------------------------------

struct FloatScheme {
    FloatGrid grid;
    Reduction reduction;
    Select select;
    std::uint64_t side_bits = 0;  // of a tensor: values agreed besides the codes
    Transport transport;  // of the codes
    bool wants_sums = false;  // of AgreedStatistics
    bool keeps_state = false;  // select() has memory from step to step
    bool joins_tensors = false;  // a scale of select() applies to several tensors of a step
};

using SchemeKind = std::variant<FloatScheme, TensorScheme, Policy>;

struct Scheme {
    std::string spec;  // canonical: parses back to this scheme
    std::string name;  // the registered name
    std::string family;  // its family: that of its definition, or of the scheme inside
    std::string format;  // format name as given in the spec; empty for grids that take keys only
    std::string note;  // written into every row
    std::map<std::string, std::string> keys;  // every key, including defaults
    SchemeKind kind;

    std::string grid_name() const;  // column `format`
    const Transport& transport() const;  // of its messages; not meaningful for a policy
    bool keeps_state() const;
    std::vector<std::string> needs() const;  // of weights, full_batch, loss, learning_rate
};

}  // namespace apscope::detail
