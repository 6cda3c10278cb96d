// A scheme: what a training system does to gradients between the workers' buffers and the reduced
// result. Ten steps (docs/schemes.md): partition, compensate, transform, statistic, agree, select,
// encode, reduce, decode, update. A scheme's own file writes `select` (the scales of every step,
// from the agreed statistics) and fills in data for the rest: the grid, its projection, the
// algebra of the reduction. No scheme owns a loop over elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/float_format.h"
#include "core/projection.h"
#include "emulation/allreduce/topology.h"
#include "emulation/schemes/tensor_scheme.h"

namespace apscope::detail {

// Grids --------------------------------------------------------------------------------------------

struct FloatGrid {
    FloatFormat format;
    Projection projection;
};

// Levels -s..s, evenly spaced over -norm..norm of a bucket of consecutive elements; the rounding is
// stochastic. (QSGD)
enum class BucketNorm { l2, max };
struct UniformGrid {
    int levels = 7;
    std::size_t bucket = 512;
    int random_bits = 32;
    BucketNorm norm = BucketNorm::l2;  // l2 where blocks run beside each other
    int code_bits() const;  // ceil(log2(2 levels + 1))
};

using Grid = std::variant<FloatGrid, UniformGrid>;
std::string grid_name(const Grid& grid);
std::uint64_t payload_bits(const Grid& grid, std::size_t elements);
bool is_stochastic(const Grid& grid);

// Reduction ----------------------------------------------------------------------------------------

enum class Algebra {
    sum_in_format,  // one scale for all workers; partial sums are rounded to the accumulator
    gather,         // codes are gathered, decoded and added in fp32, in rank order
};

struct Reduction {
    Algebra algebra = Algebra::sum_in_format;
    bool exact = false;      // accumulate=exact: every topology gives the fp64 sum
    FloatFormat accumulate;  // the format partial sums are rounded to
    Projection projection;   // with the hops' rounding
};

// Selection ----------------------------------------------------------------------------------------

// What the workers agree on about one tensor at one step.
struct AgreedStatistics {
    double amax = 0.0;            // largest finite |g| over all workers
    std::uint64_t nonfinite = 0;  // NaNs and infinities over all workers
    std::size_t elements = 0;     // of one worker
    // Fixed-shape sums over the finite elements of all workers; 0 unless a scheme wants them.
    double sum = 0.0, sum_absolute = 0.0, sum_squares = 0.0;
};

// All steps and tensors that a replay selects, in step order: at(step, tensor).
struct SelectionInput {
    std::size_t steps = 0, tensors = 0;
    int workers = 0;
    std::vector<AgreedStatistics> statistics;
    std::vector<std::string> names;          // of the tensors: what a state speaks of
    std::vector<std::int64_t> step_numbers;
    const AgreedStatistics& at(std::size_t step, std::size_t tensor) const { return statistics[step * tensors + tensor]; }
};

struct Decision {
    double scale = 1.0;           // an fp32 number or a power of two
    std::optional<int> exponent;  // s if scale = 2^s
    bool skipped = false;         // the step is dropped
};
Decision power_of_two(int exponent);
Decision scale_of(double scale);  // finds the exponent if there is one
std::optional<int> common_exponent(std::span<const double> scales);  // s if there are some and all are 2^s

// The scheme ---------------------------------------------------------------------------------------

struct Scheme;
struct PolicyBranch {  // emulation/schemes/policy.h
    std::string condition;
    std::shared_ptr<const Scheme> scheme;
};

// One decision an item of the input. What a scheme remembers beyond the last step goes into the
// state, and the next replay starts from there.
using Select = std::function<std::vector<Decision>(const SelectionInput&, State&)>;
using SideBits = std::function<std::uint64_t(std::size_t elements)>;

struct Scheme {
    std::string spec;    // canonical: parses back to this scheme
    std::string name;    // the registered name
    std::string family;  // what it competes as: SchemeDefinition::family, or that of the scheme inside
    std::string format;  // format name as given in the spec; empty for grids that take keys only
    std::map<std::string, std::string> keys;  // every key, defaults included
    std::string note;    // written into every row
    Grid grid;
    Reduction reduction;
    Select select;
    SideBits side_bits;
    Transport transport;       // of the codes
    bool wants_sums = false;   // of AgreedStatistics
    bool keeps_state = false;  // select() remembers something from step to step

    // If set, the scheme works on whole tensors and the grid, reduction, select, side_bits and transport above are unused.
    std::shared_ptr<const TensorScheme> tensor;
    // If not empty, every item goes to the first branch whose condition holds (emulation/schemes/policy.h).
    std::vector<PolicyBranch> policy;

    std::string grid_name() const;  // column `format`
    const Transport& sends() const { return tensor ? tensor->transport : transport; }
};

// The registry -------------------------------------------------------------------------------------

struct SchemeKey {
    std::string_view name, default_value, meaning;
};

struct SchemeArguments {
    std::optional<FloatFormat> format;
    std::shared_ptr<const Scheme> inner;  // of a combinator
    std::string body;                     // what stood in the parentheses
    std::map<std::string, std::string> keys;  // every key of the definition

    const std::string& text(std::string_view key) const;
    long integer(std::string_view key, long least, long most) const;
    double real(std::string_view key) const;
    std::string_view choice(std::string_view key, std::span<const std::string_view> choices) const;
};

struct SchemeDefinition {
    std::string_view name;        // in specs: aps
    std::string_view class_name;  // in Python: APS
    std::string_view summary;     // one line
    std::string_view source;      // where the algorithm comes from
    std::string_view needs;       // what a trace must have recorded
    bool takes_format;
    std::vector<SchemeKey> keys;
    void (*build)(const SchemeArguments&, Scheme&);  // fills in what the scheme is
    enum class Body { none, scheme, policy } body = Body::none;  // what its parentheses hold
    // APS, loss scaling, ...: schemes that a summary chooses the best of. From its group (schemes/groups.h); empty for
    // combinators, which are of the family of what they hold.
    std::string_view family = {};
};

std::span<const SchemeDefinition> scheme_definitions();

// name[:format][,key=value...], name(SPEC)[,key=value...] or hybrid(CONDITION=SPEC;...). Throws std::invalid_argument for an unknown name, key or value.
Scheme parse_scheme(std::string_view spec);

// Schemes made at run time, in Python: known by their name to parse_scheme() from now on. A second
// one of the same name replaces the first.
void add_made_scheme(Scheme scheme);
std::shared_ptr<const Scheme> find_made_scheme(std::string_view name);

}  // namespace apscope::detail
