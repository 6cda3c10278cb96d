// What passes through a scheme's parts (scheme.h): a tensor at a step, the parameters that were
// chosen for it, rows to be read, pieces of them, messages, and the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/philox.h"
#include "emulation/allreduce/topology.h"
#include "emulation/schemes/codecs/block_use.h"
#include "emulation/schemes/codecs/grid_use.h"
#include "emulation/schemes/state.h"

namespace apscope::detail {

// What select() chose for one step and all workers. Python sees the first four under these names,
// where they are set, and the scheme's own parts beside them.
struct Parameters {
    std::optional<double> scale;     // of every element
    Row scales;                      // where they differ: one for `unit` consecutive elements each
    std::size_t unit = 1, lead = 0;  // elements of the first unit that lie before the row
    std::optional<int> scale_exponent;  // s where one power of two 2^s scales all
    bool skipped = false;               // the scheme drops this step
    Record own;                         // what else the scheme's encode and reduce must know

    template <class Part>
    const Part& of() const {
        return own.of<Part>();
    }
    double common_scale() const;  // throws std::invalid_argument without one
    double scale_at(std::size_t element) const { return scales[(lead + element) / unit]; }

    NamedRows rows() const;
    static Parameters of_rows(NamedRows rows);
};

struct Bucket;

// One tensor at one step, as a scheme sees it.
struct TrainingStep {
    std::string tensor = "x", role = "other";
    std::vector<std::int64_t> shape;
    std::int64_t number = 0;  // of the step
    std::size_t index = 0;    // among the steps replayed, from 0
    int workers = 1;
    PhiloxKey key{};                          // of all draws of this tensor at this step
    std::uint64_t nonfinite = 0;              // elements that bypass the scheme, of all workers
    std::vector<std::uint64_t> nonfinite_of;  // of each worker, if the rows are at hand
    double loss = std::numeric_limits<double>::quiet_NaN(),
           learning_rate = std::numeric_limits<double>::quiet_NaN();
    std::span<const float> weights, full_batch;  // empty where not recorded
    bool packs = false;   // messages carry their payload, not its length alone
    std::size_t row = 0;  // elements of a row of the tensor that this is a part of; 0: by `shape`
    // Of a scheme whose blocks cross tensors (SchemeParts::bucket); null: the tensor is alone.
    const Bucket* bucket = nullptr;

    // A worker's random words; `hop` keeps apart what one worker draws more than once.
    RandomStream stream(std::size_t worker, int random_bits, std::uint32_t hop = 0) const {
        return {key, static_cast<std::uint32_t>(worker), stage_and_hop(Stage::wire, hop),
                random_bits};
    }
    // Words that all workers share: signs of a rotation, a random start.
    RandomStream shared_stream(int random_bits, std::uint32_t hop = 0) const {
        return {key, 0, stage_and_hop(Stage::reduce, hop), random_bits};
    }
};

// Of the tensor, by its shape.
inline std::size_t elements_of(const TrainingStep& step) {
    std::size_t n = 1;
    for (const std::int64_t axis : step.shape) n *= static_cast<std::size_t>(axis);
    return n;
}

// What one worker put on the wire: for a whole tensor, or for a piece of it.
struct Message {
    Row values;  // what a receiver reads, as long as the input
    Row codes;   // what is added where codes are: scaled values or integers; else of no meaning
    Row bias, variance;    // E[value] - input and Var[value] over the draws, NaN where not known;
                           // empty if `certain`, or if none is known
    bool certain = false;  // nothing was drawn for it, though the scheme draws elsewhere
    // Of what was rounded to a float grid, in the basis it was rounded in.
    std::optional<GridUse> grid_use;
    // 1 an element that grid_use counts as saturated; empty if there is none.
    std::vector<std::uint8_t> saturated;
    std::optional<BlockUse> block_use;  // where blocks of a float grid have scales of their own
    std::vector<std::uint8_t> payload;  // if TrainingStep::packs
    std::uint64_t payload_bits = 0,
                  side_bits = 0;  // of a piece: its own payload, the side information of the tensor
    std::uint64_t tensor_bits = 0;  // of side_bits, those that a tensor of any length has once

    // Ready to be filled in for n elements: the rows that are asked for as long as that, of any
    // values, the others empty.
    void prepare(std::size_t n, bool with_codes, bool with_moments);
};

// Of a sum that draws, given the messages: E[sum] and Var[sum] of every element, NaN where not
// known; empty where none is.
struct SumMoments {
    Row expected, variance;
};

struct Exchange {
    Rows intended;              // what the workers wanted to send
    std::vector<Message> sent;  // values in the gradient's own basis
    Rows reduced;               // the sums over the workers, one a topology
    SumMoments moments;         // of the only one
    Row scales;  // the agreed scale of every element, or one for all, on the scheme's float grid;
                 // else empty
    std::optional<int> scale_exponent;  // s where one power of two 2^s scaled all
    bool skipped = false;               // the scheme dropped this step
};

// One worker's row, of `size` elements, to be read piece by piece.
struct RowReader {
    std::size_t size = 0;
    // Elements first .. first + count - 1, finite unless the scheme sees special values; good until
    // the next call.
    std::function<std::span<const double>(std::size_t first, std::size_t count)> read;

    static RowReader of(std::span<const double> row) {
        return {row.size(),
                [row](std::size_t first, std::size_t count) { return row.subspan(first, count); }};
    }
    static RowReader of_zeros(std::size_t size) {
        return {size, [zeros = Row()](std::size_t, std::size_t count) mutable {
                    if (zeros.size() < count) zeros.resize(count, 0.0);
                    return std::span<const double>(zeros).first(count);
                }};
    }
};

// A number of each worker's whole array, such as its amax: found once for all tensors of a bucket,
// by any of the threads.
class ArrayTotals {
public:
    double of(std::size_t worker, const std::function<double()>& find);

private:
    std::mutex mutex_;
    std::map<std::size_t, double> found_;
};

// The array that a tensor is sent in, one behind the other with its neighbours: a row of each
// worker, or of the one that a step of one worker is about.
struct Bucket {
    struct ArrayRow {
        std::size_t worker = 0;
        RowReader seen;
        RowReader rounded;  // with elements that are not finite, where the scheme rounds them
    };
    std::vector<ArrayRow> rows;
    std::size_t first = 0;  // where the tensor begins
    std::shared_ptr<ArrayTotals> totals;

    const ArrayRow& row(std::size_t worker) const { return rows.at(rows.size() == 1 ? 0 : worker); }
    std::size_t size() const { return rows.at(0).seen.size; }
    // Of one worker, for a tensor that begins there.
    Bucket of(std::size_t worker, std::size_t at) const { return {{row(worker)}, at, totals}; }
};

// Where a piece lies: it begins at element `first` of rows of `size`.
struct Place {
    std::size_t first = 0, size = 0;
};

// Throws std::invalid_argument for a row that is not one of a tensor of this length.
void check_length(std::size_t found, std::size_t wanted);

// A piece of a row that a state holds. Throws std::invalid_argument for a state of another tensor's
// length.
std::span<double> piece_of(Row& row, const Place& place, std::size_t count);
std::span<const double> piece_of(const Row& row, const Place& place, std::size_t count);

// What select() gets: the rows of all workers.
struct Selection {
    const TrainingStep& step;
    State& state;
    std::span<const RowReader> rows;
};

// What measure() gets: one of them.
struct WorkerRow {
    const TrainingStep& step;
    const Parameters& theta;
    const RowReader& x;
    std::size_t worker = 0;
};

// What encode() gets: a piece of a worker's row.
struct RowPiece {
    const TrainingStep& step;
    const Parameters& theta;
    std::span<const double> own;  // what measure() gave for this row
    Place place;
    std::span<const double> x;
    std::size_t worker = 0;

    bool packs() const { return step.packs; }
    RandomStream stream(int random_bits, std::uint32_t hop = 0) const {
        return step.stream(worker, random_bits, hop);
    }
};

// What reduce() gets: the messages of such a piece.
struct SentPieces {
    const TrainingStep& step;
    State& state;
    const Parameters& theta;
    Place place;
    const std::vector<Message>& messages;
    const Topology& topology;
    SumMoments* moments = nullptr;  // to be filled in by a sum that draws, if it knows them

    std::size_t workers() const { return messages.size(); }
};

// Sums in rank order: of fp64 values, and of values narrowed to fp32 with fp32 additions.
void exact_sum(const std::vector<Message>& sent, Row& sum);
void gathered_sum(const std::vector<Message>& sent, Row& sum);
// Of the integers that codes are: exact in any order.
void sum_of_codes(const std::vector<Message>& sent, Row& sum);
inline Row exact_sum(const std::vector<Message>& sent) {
    Row sum;
    exact_sum(sent, sum);
    return sum;
}

}  // namespace apscope::detail
