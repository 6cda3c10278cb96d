// TensorScheme: a scheme that sees the elements of a worker's tensor: what its messages are made
// of, and what it remembers from step to step. Schemes that only scale and round to a float grid
// are data in a FloatScheme (scheme.h).
//
// Its parts are the steps of docs/schemes.md. All but encode may be left out; a scheme's own file
// fills in those that make it what it is, from the encodings of emulation/schemes/codecs. One
// exchange (exchange_run.h):
//
//      intended = compensate(gradients)    what the workers want to send, in place
//      x        = forward(intended)        what is encoded instead of it
//      theta    = select(x), draw          statistic, agreement and parameters, for all workers
//      sent_w   = encode(theta, x_w)       one message a worker
//      y        = reduce(theta, sent)      the sum over the workers
//      sent_w, y = inverse(...)            back to the gradient's basis
//      update(...)                         the state for the next step
//
// A part works on a piece of the rows, at a place. A scheme that is element-wise except for totals
// (sums, maxima), which select and measure read, gives the same bits for every division into
// pieces, and a replay needs no memory of the tensor's length for it. For any other scheme, the
// piece is the row.
//
// Elements that are not finite bypass a scheme, unless it is made to see them: they count as 0 in
// it and leave it unchanged. select() learns how many there are (TrainingStep).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/philox.h"
#include "emulation/allreduce/topology.h"
#include "emulation/schemes/codecs/block_use.h"
#include "emulation/schemes/codecs/grid_use.h"
#include "emulation/schemes/state.h"
#include "emulation/schemes/transport.h"

namespace apscope::detail {

// What select() chose for one step and all workers. Python sees the first four under these names,
// where they are set, and the scheme's own parts beside them.
struct Parameters {
    std::optional<double> scale;  // of every element
    Row scales;  // where they differ: one for `unit` consecutive elements each
    std::size_t unit = 1;
    std::optional<int> scale_exponent;  // s where one power of two 2^s scales all
    bool skipped = false;  // the scheme drops this step
    Record own;  // what else the scheme's encode and reduce must know

    template <class Part>
    const Part& of() const {
        return own.of<Part>();
    }
    double common_scale() const;  // throws std::invalid_argument without one

    NamedRows rows() const;
    static Parameters of_rows(NamedRows rows);
};

// One tensor at one step, as a scheme sees it.
struct TrainingStep {
    std::string tensor = "x", role = "other";
    std::vector<std::int64_t> shape;
    std::int64_t number = 0;  // of the step
    std::size_t index = 0;  // among the steps replayed, from 0
    int workers = 1;
    PhiloxKey key{};  // of all draws of this tensor at this step
    std::uint64_t nonfinite = 0;  // elements that bypass the scheme, of all workers
    double loss = std::numeric_limits<double>::quiet_NaN(),
           learning_rate = std::numeric_limits<double>::quiet_NaN();
    std::span<const float> weights, full_batch;  // empty where not recorded
    bool packs = false;  // messages carry their payload, not its length alone

    // A worker's random words; `hop` keeps apart what one worker draws more than once.
    RandomStream stream(int worker, int random_bits, std::uint32_t hop = 0) const {
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
    Row codes;  // what is added where codes are: scaled values or integers; else of no meaning
    Row bias, variance;  // E[value] - input and Var[value] over the draws, NaN where not known;
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

    // Ready to be filled in for n elements: the rows that are asked for as long as that, of any
    // values, the others empty.
    void prepare(std::size_t n, bool with_codes, bool with_moments);
};

struct Exchange {
    Rows intended;  // what the workers wanted to send
    std::vector<Message> sent;  // values in the gradient's own basis
    Rows reduced;  // the sums over the workers, one a topology
    Row scales;  // the agreed scale of every element, or one for all, on the scheme's float grid;
                 // else empty
    std::optional<int> scale_exponent;  // s where one power of two 2^s scaled all
    bool skipped = false;  // the scheme dropped this step
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

// Where a piece lies: it begins at element `first` of rows of `size`.
struct Place {
    std::size_t first = 0, size = 0;
};

// A piece of a row that a state holds. Throws std::invalid_argument for a state of another tensor's
// length.
std::span<double> piece_of(Row& row, const Place& place, std::size_t count);
std::span<const double> piece_of(const Row& row, const Place& place, std::size_t count);

inline constexpr std::size_t whole_row = std::numeric_limits<std::size_t>::max();

// All but encode may be left out. Pieces begin at multiples of sum_block (core/fixed_shape_sum.h)
// and of `run`.
struct SchemeParts {
    std::size_t run = 1;  // consecutive elements that no cut may part, or whole_row; totals of
                          // longer runs are measured

    // Makes room in the state for a row of `size` a worker, before all else.
    std::function<void(State&, std::size_t workers, std::size_t size)> begin;
    // What the state takes from a worker's gradients before anything is computed: once an element
    // and step.
    std::function<void(const TrainingStep&, State&, const Place&, std::span<const double> gradients,
                       int worker)>
        take;
    // From the gradients to what the worker wants to send, in place; as often as it is read.
    std::function<void(const TrainingStep&, const State&, const Place&, std::span<double>,
                       int worker)>
        compensate;
    // The same for all workers at once, before it, on whole rows only.
    std::function<void(const TrainingStep&, State&, Rows&)> compensate_all;
    // From there to what select(), measure() and encode() get, where that is something else: from
    // the rows of all workers, and then for each in place. Beside forward(), select() and measure()
    // work on whole rows only.
    std::function<void(const TrainingStep&, const State&, const Rows& intended, Rows& x)> forward;
    std::function<void(const TrainingStep&, const State&, const Place&, std::span<double>,
                       int worker)>
        adjust;
    // For all workers; draws nothing, unless on whole rows.
    std::function<Parameters(const TrainingStep&, State&, std::span<const RowReader>)> select;
    // What the step's words decide for all workers and pieces, added to what select() chose; rows
    // are of `size`.
    std::function<void(const TrainingStep&, Parameters&, std::size_t size)> draw;
    // The totals of a worker's row that its own encode() needs, as numbers of any meaning; draws
    // nothing.
    std::function<Row(const TrainingStep&, const Parameters&, const RowReader&)> measure;
    // `own`: what measure() gave. Fills in the message, which may be that of another piece.
    std::function<void(const TrainingStep&, const Parameters&, std::span<const double> own,
                       const Place&, std::span<const double>, int worker, Message&)>
        encode;
    // Without one: gathered_sum().
    std::function<void(const TrainingStep&, State&, const Parameters&, const Place&,
                       const std::vector<Message>&, const Topology&, Row& sum)>
        reduce;
    // Instead of it, where codes add up: from their sum, in rank order, to what it stands for, in
    // place. No message keeps its codes then.
    std::function<void(const TrainingStep&, const Parameters&, Row& sum)> decode_sum;
    // Of messages and sums, after the sum, on whole rows only; linear, in place; gives back the
    // tensor's length. The variances of messages are not known after it.
    std::function<void(const TrainingStep&, const State&, Row&)> inverse;
    // The state for the next step, from a piece of the exchange; then, once a step, what is left to
    // do.
    std::function<void(const TrainingStep&, State&, const Place&, const Exchange&)> update;
    std::function<void(const TrainingStep&, State&)> end;

    // Whether the workers send something else than their gradients, and whether something is
    // remembered of an exchange.
    bool compensates() const { return begin || take || compensate || compensate_all; }
    bool transforms() const { return forward || adjust; }
    bool updates() const { return update || end; }
};

struct TensorScheme {
    std::string name;  // of one that a caller made of own parts, for their errors
    std::string grid;  // column `format`: sign, levels:16, a float format
    std::string topology{reductions::gather};  // column `topology` of its own reduction
    // Reduces by any topology, as its caller asks; never changes the state.
    bool crosses_topologies = false;
    bool keeps_state = false;  // steps must come in order
    bool feeds_errors_back = false;  // remembers what it did not send
    // What was to be sent (a momentum) is a truth of its own, beside the gradient.
    bool compares_intended = false;
    bool is_exact_sum = false;  // reduce() is the sum of the values, but for fp64's rounding
    bool draws = false;  // random words decide something
    bool reduction_draws = false;  // in reduce() too, not in encode() alone
    bool shares_draws = false;  // all messages are drawn by the same words: variances of their sum
                                // are not sums of theirs
    bool has_own_parts = false;  // functions of a caller's, who expects recorded gradients in them
    bool sees_special = false;  // elements that are not finite do not bypass it
    bool rounds_turned = false;  // encode() turns what it rounds to another basis, and back
    // Of the float grid under the agreed scale that select() names: scale or scales.
    std::optional<GridLimits> limits;
    Transport transport;  // of its messages
    std::vector<std::string> needs;  // of weights, full_batch, loss, learning_rate
    // Bytes of the tables that a thread keeps for rows of so many elements, beside what grows with
    // them.
    std::function<std::size_t(std::size_t elements)> tables;

    SchemeParts parts;
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
