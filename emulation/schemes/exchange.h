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
    std::optional<double> scale;        // the scale of every element, if all have the same
    Row scales;                         // otherwise, one scale per `unit` consecutive elements
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

    // Converts parameters to named rows, and named rows to parameters.
    NamedRows rows() const;
    static Parameters of_rows(NamedRows rows);
};

struct Bucket;

// Describes one tensor at one step to the parts of a scheme.
struct TrainingStep {
    std::string tensor = "x", role = "other";
    std::vector<std::int64_t> shape;
    std::int64_t number = 0;  // number of the step
    std::size_t index = 0;    // index among the replayed steps
    int workers = 1;
    // In two phases, where each row is encoded alone, the number of all messages: one per worker
    // and one per owner of a shard. 0 otherwise.
    int message_count = 0;
    PhiloxKey key{};  // key of all random words of this tensor at this step
    // The number of NaNs and infinities of all workers that bypass the scheme.
    std::uint64_t nonfinite = 0;
    std::vector<std::uint64_t> nonfinite_of;  // nonfinite of each worker; empty if unknown
    // NaN if not recorded.
    double loss = std::numeric_limits<double>::quiet_NaN(),
           learning_rate = std::numeric_limits<double>::quiet_NaN();
    std::span<const float> weights, full_batch;  // empty if not recorded
    bool packs = false;  // true: messages have their payload, not only its length
    // False: of a message, only the decoded values and the codes are needed; encode() may leave out
    // its moments and what it says about the grid.
    bool describes = true;
    bool correlated = false;  // true: words of messages that are added are stratified (philox.h)
    // The length of the tensor's rows, if only a part of the tensor is sent; 0: `shape` gives the
    // length.
    std::size_t row = 0;
    // The tensor's bucket, if blocks of the scheme cross tensors (SchemeParts::bucket); else null.
    const Bucket* bucket = nullptr;

    // The number of messages, which is more than the number of every worker that encodes.
    int senders() const { return message_count != 0 ? message_count : workers; }
    // The random words of a worker; `hop` distinguishes several draws of one worker.
    RandomStream stream(std::size_t worker, int random_bits, std::uint32_t hop = 0) const {
        const int added = message_count != 0 ? message_count / 2 : workers;
        const bool is_added = worker < static_cast<std::size_t>(added);  // not an owner's message
        return {key, static_cast<std::uint32_t>(worker), stage_and_hop(Stage::wire, hop),
                random_bits, correlated && is_added ? static_cast<std::uint32_t>(added) : 1u};
    }
    // Random words that all workers share, such as the signs of a rotation or a random start.
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
    bool certain = false;  // true: random words did not affect the message of a scheme that draws
    // Counts of the rounding to a float grid, in the basis in which the values were rounded; not
    // set for other encodings.
    std::optional<GridUse> grid_use;
    // 1 for an element that grid_use counts as saturated; empty if there is none.
    std::vector<std::uint8_t> saturated;
    std::optional<BlockUse> block_use;  // set if blocks of a float grid have their own scales
    std::vector<std::uint8_t> payload;  // the packed bits; empty unless TrainingStep::packs is set
    std::uint64_t payload_bits = 0,     // number of bits of the payload
        side_bits = 0;  // number of other bits, such as scales, of the complete tensor, even in the
                        // message of a piece
    std::uint64_t tensor_bits = 0;  // part of side_bits that is independent of the tensor's length

    // Prepares a message for n elements: `values` and the requested rows get n elements of
    // unspecified value, the other rows are emptied.
    void prepare(std::size_t n, bool with_codes, bool with_moments);
};

// E[sum] and Var[sum] of every element of a stochastically rounded sum, given the messages. An
// entry is NaN where it is unknown; the rows are empty if all entries are unknown.
struct SumMoments {
    Row expected, variance;
};

// The result of one exchange of a tensor at a step.
struct Exchange {
    Rows intended;              // the values that the workers want to send
    std::vector<Message> sent;  // one message per worker; `values` are in the gradient's basis
    Rows reduced;               // the sums over the workers, one per topology
    SumMoments moments;         // moments of a sum that is rounded stochastically
    Row scales;  // the common scale or the scale of every element, if the scheme has a float grid
    std::optional<int> scale_exponent;  // s, if all elements have the scale 2^s
    bool skipped = false;               // the scheme dropped this step
};

// A reader of one worker's row, of `size` elements, piece by piece.
struct RowReader {
    std::size_t size = 0;
    // Elements first .. first + count - 1, finite unless the scheme sees special values; valid
    // until the next call.
    std::function<std::span<const double>(std::size_t first, std::size_t count)> read;

    // A reader of a row in memory.
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
// computed once for all tensors of a bucket.
class ArrayTotals {
public:
    // The worker's number, which find() computes on the first call.
    double of(std::size_t worker, const std::function<double()>& find);

private:
    std::mutex mutex_;
    std::map<std::size_t, double> found_;
};

// The array of a bucket, in which a tensor and its neighbours are concatenated and sent. It has one
// row per worker or, in a step with one worker, only that worker's row.
struct Bucket {
    struct ArrayRow {
        std::size_t worker = 0;
        RowReader seen;     // the row from which the scheme chooses
        RowReader rounded;  // the row that the scheme encodes; it may have NaNs and infinities if
                            // encodes_special()
    };
    std::vector<ArrayRow> rows;
    std::size_t first = 0;  // index in the array of the tensor's first element
    // The totals that the exchanges of this bucket share.
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

// Throws std::invalid_argument if the length of a state's row is not the expected one.
void check_length(std::size_t length, std::size_t expected);
// Ends the handler of std::out_of_range in an exchange: a scheme read beyond a row of the caller's
// state, or of what the caller's functions chose. Throws std::invalid_argument.
[[noreturn]] void refuse_lengths();

// The `count` elements of a state's row from place.first on. Throws std::invalid_argument if the
// row does not have place.size elements.
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

// The input of WholeSum::encode(): what is known of all messages, whose sum is encoded.
struct AddedRows {
    const TrainingStep& step;
    State& state;
    std::size_t workers;
    bool are_certain = true,        // no message depends on random words
        have_variances = true;      // the variance of every message is known
    SumMoments* moments = nullptr;  // as in SentPieces

    void add(const std::vector<Message>& messages);
};

// Sums of decoded values in rank order: exact_sum adds in fp64; gathered_sum narrows each value to
// fp32 and adds in fp32.
void exact_sum(const std::vector<Message>& sent, Row& sum);
void gathered_sum(const std::vector<Message>& sent, Row& sum);
// The sum of integer codes, which is exact in any order.
void sum_of_codes(const std::vector<Message>& sent, Row& sum);
inline Row exact_sum(const std::vector<Message>& sent) {
    Row sum;
    exact_sum(sent, sum);
    return sum;
}

}  // namespace apscope::detail
