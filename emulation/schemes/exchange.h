// The inputs and outputs of a scheme's parts (scheme.h): a tensor at a step, the parameters chosen
// for it, readers of rows, pieces of rows, messages, and the result.
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

// The parameters that select() chooses for all workers at one step. Python gets scale, scales,
// scale_exponent and skipped under these names if they are set, and the entries of `extra`.
struct Parameters {
    std::optional<double> scale;        // scale of every element
    Row scales;                         // otherwise: one scale per `unit` consecutive elements
    std::size_t unit = 1,               // number of elements that share one of `scales`
        lead = 0;                       // how many elements of the first unit precede the row
    std::optional<int> scale_exponent;  // s, if all elements have the scale 2^s
    bool skipped = false;               // the scheme drops this step
    Record extra;                       // further inputs of the scheme's encode and reduce

    template <class Part>
    const Part& of() const {
        return extra.of<Part>();
    }
    double common_scale() const;  // throws std::invalid_argument if `scale` is not set
    double scale_at(std::size_t element) const { return scales[(lead + element) / unit]; }

    NamedRows rows() const;
    static Parameters of_rows(NamedRows rows);
};

struct Bucket;

// One tensor at one step, for a scheme.
struct TrainingStep {
    std::string tensor = "x", role = "other";
    std::vector<std::int64_t> shape;
    std::int64_t number = 0;  // number of the step
    std::size_t index = 0;    // index among the replayed steps
    int workers = 1;
    PhiloxKey key{};                          // of all random words of this tensor at this step
    std::uint64_t nonfinite = 0;              // elements of all workers that bypass the scheme
    std::vector<std::uint64_t> nonfinite_of;  // per worker, if the rows are known
    double loss = std::numeric_limits<double>::quiet_NaN(),
           learning_rate = std::numeric_limits<double>::quiet_NaN();
    std::span<const float> weights, full_batch;  // empty if not recorded
    bool packs = false;  // true: messages have their payload, not only its length
    // If this is a part of a tensor: the length of the tensor's rows. 0: rows follow from `shape`.
    std::size_t row = 0;
    // The tensor's bucket, if blocks of the scheme cross tensors (SchemeParts::bucket); else null.
    const Bucket* bucket = nullptr;

    // The random words of a worker; `hop` distinguishes several draws of one worker.
    RandomStream stream(std::size_t worker, int random_bits, std::uint32_t hop = 0) const {
        return {key, static_cast<std::uint32_t>(worker), stage_and_hop(Stage::wire, hop),
                random_bits};
    }
    // Words that all workers share: signs of a rotation, a random start.
    RandomStream shared_stream(int random_bits, std::uint32_t hop = 0) const {
        return {key, 0, stage_and_hop(Stage::reduce, hop), random_bits};
    }
};

// The number of elements of the tensor, from its shape.
inline std::size_t elements_of(const TrainingStep& step) {
    std::size_t n = 1;
    for (const std::int64_t axis : step.shape) n *= static_cast<std::size_t>(axis);
    return n;
}

// The message of one worker, for a complete tensor or for a piece of it.
struct Message {
    Row values;            // the decoded values, as long as the input
    Row codes;             // the terms of the sum, if codes are added: scaled values or integers
    Row bias, variance;    // E[value] - input and Var[value] over the draws, NaN where unknown;
                           // empty if `certain`, or if all are unknown
    bool certain = false;  // nothing was drawn for this message, although the scheme draws
    // If the values were rounded to a float grid: counts in the basis in which they were rounded.
    std::optional<GridUse> grid_use;
    // 1 for an element that grid_use counts as saturated; empty if there is none.
    std::vector<std::uint8_t> saturated;
    std::optional<BlockUse> block_use;  // set if blocks of a float grid have their own scales
    std::vector<std::uint8_t> payload;  // the packed bits; empty unless TrainingStep::packs is set
    std::uint64_t payload_bits = 0,     // of the piece, if this is the message for a piece
        side_bits = 0;                  // of the complete tensor, even if this is for a piece
    std::uint64_t tensor_bits = 0;  // the part of side_bits that a tensor of any length has once

    // Prepares the message for n elements: the requested rows have n elements of any value, the
    // others are empty.
    void prepare(std::size_t n, bool with_codes, bool with_moments);
};

// The moments of a stochastically rounded sum, given the messages: E[sum] and Var[sum] of every
// element, NaN where unknown; empty if all are unknown.
struct SumMoments {
    Row expected, variance;
};

struct Exchange {
    Rows intended;              // the values that the workers want to send
    std::vector<Message> sent;  // values in the gradient's own basis
    Rows reduced;               // the sums over the workers, one per topology
    SumMoments moments;         // moments of a sum that is rounded stochastically
    Row scales;  // the agreed scale of every element, or one for all, if the scheme has a
                 // float grid
    std::optional<int> scale_exponent;  // s, if all elements have the scale 2^s
    bool skipped = false;               // the scheme dropped this step
};

// A reader of one worker's row, of `size` elements, piece by piece.
struct RowReader {
    std::size_t size = 0;
    // Elements first .. first + count - 1, finite unless the scheme sees special values; valid
    // until the next call.
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

// One number per worker, computed from the worker's complete array, such as the array's amax. It is
// kept for all tensors of a bucket.
class ArrayTotals {
public:
    double of(std::size_t worker, const std::function<double()>& find);

private:
    std::mutex mutex_;
    std::map<std::size_t, double> found_;
};

// The array in which a tensor and its neighbours are sent, one after another. It has one row per
// worker or, in a step with one worker, the row of that worker only.
struct Bucket {
    struct ArrayRow {
        std::size_t worker = 0;
        RowReader seen;     // the row from which the scheme chooses
        RowReader rounded;  // the row that the scheme encodes; not all finite if encodes_special()
    };
    std::vector<ArrayRow> rows;
    std::size_t first = 0;  // index in the array of the tensor's first element
    std::shared_ptr<ArrayTotals> totals;

    const ArrayRow& row(std::size_t worker) const { return rows.at(rows.size() == 1 ? 0 : worker); }
    std::size_t size() const { return rows.at(0).seen.size; }
    // The bucket of one worker, for a tensor that begins at `at`.
    Bucket of(std::size_t worker, std::size_t at) const { return {{row(worker)}, at, totals}; }
};

// The place of a piece: it begins at element `first` of rows of `size` elements.
struct Place {
    std::size_t first = 0, size = 0;
};

// Throws std::invalid_argument if a row does not have this length.
void check_length(std::size_t length, std::size_t expected);

// A piece of a row of a state. Throws std::invalid_argument for a state of another tensor's length.
std::span<double> piece_of(Row& row, const Place& place, std::size_t count);
std::span<const double> piece_of(const Row& row, const Place& place, std::size_t count);

// The input of select(): the rows of all workers.
struct Selection {
    const TrainingStep& step;
    State& state;
    std::span<const RowReader> rows;
};

// The input of measure(): the row of one worker.
struct WorkerRow {
    const TrainingStep& step;
    const Parameters& theta;
    const RowReader& x;
    std::size_t worker = 0;
};

// The input of encode(): a piece of a worker's row.
struct RowPiece {
    const TrainingStep& step;
    const Parameters& theta;
    std::span<const double> measured;  // the result of measure() for this row
    Place place;
    std::span<const double> x;
    std::size_t worker = 0;

    bool packs() const { return step.packs; }
    RandomStream stream(int random_bits, std::uint32_t hop = 0) const {
        return step.stream(worker, random_bits, hop);
    }
};

// The input of reduce(): the messages of all workers for one piece.
struct SentPieces {
    const TrainingStep& step;
    State& state;
    const Parameters& theta;
    Place place;
    const std::vector<Message>& messages;
    const Topology& topology;
    SumMoments* moments = nullptr;  // filled in by a stochastic reduction that can compute them

    std::size_t workers() const { return messages.size(); }
};

// Sums of decoded values in rank order: exact_sum adds in fp64; gathered_sum narrows each value to
// fp32 and adds in fp32.
void exact_sum(const std::vector<Message>& sent, Row& sum);
void gathered_sum(const std::vector<Message>& sent, Row& sum);
// The sum of codes, which are integers: exact in any order.
void sum_of_codes(const std::vector<Message>& sent, Row& sum);
inline Row exact_sum(const std::vector<Message>& sent) {
    Row sum;
    exact_sum(sent, sum);
    return sum;
}

}  // namespace apscope::detail
