// A scheme: the processing of gradients between the workers' buffers and the reduced result. It is
// its parts, or a policy that assigns every tensor and step to one of several schemes (policy.h).
//
// The parts are the steps of docs/schemes.md. All but the encoding may be left out; a scheme's own
// file fills in those that make it what it is, from the encodings of emulation/schemes/codecs. One
// exchange (exchange_run.h):
//
//      intended = compensate(gradients)    what the workers want to send, in place
//      x        = forward(intended)        what is encoded instead of it
//      theta    = select(x) or choose, draw    statistic, agreement and parameters, for all workers
//      sent_w   = encode(theta, x_w)       one message a worker
//      y        = reduce(theta, sent)      the sum over the workers
//      sent_w, y = inverse(...)            back to the gradient's basis
//      update(...)                         the state for the next step
//
// A part works on a piece of the rows, at a place. A scheme that is element-wise except for totals
// (sums, maxima), which select and measure read, gives the same bits for every division into
// pieces, and a replay needs no memory of the tensor's length for it. For any other scheme, the
// piece is the row. No scheme owns a loop over elements.
//
// Elements that are not finite bypass a scheme, unless it is made to see them: they count as 0 in
// it and leave it unchanged. A float grid rounds them as any other number, so a saturating one
// sends its largest; nothing is chosen from them. select() learns how many there are
// (TrainingStep).
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulation/schemes/choice.h"
#include "emulation/schemes/exchange.h"
#include "emulation/schemes/float_encoder.h"
#include "emulation/schemes/policy.h"
#include "emulation/schemes/transport.h"

namespace apscope::detail {

struct FloatPhases;

inline constexpr std::size_t whole_row = std::numeric_limits<std::size_t>::max();

// Pieces begin at multiples of sum_block (core/fixed_shape_sum.h) and of `run`.
struct SchemeParts {
    // Facts
    // ------------------------------------------------------------------------------------------

    std::string grid;                          // column `format`: sign, levels:16, a float format
    std::string topology{reductions::gather};  // column `topology` of its own reduction
    Transport transport;                       // of its messages
    std::vector<std::string> needs;            // of weights, full_batch, loss, learning_rate
    // Bytes of the tables that a thread keeps for rows of so many elements, beside what grows with
    // them.
    std::function<std::size_t(std::size_t elements)> tables;
    std::string defined_as;  // of functions of a caller, who expects recorded gradients in them
    std::size_t run = 1;     // consecutive elements that no cut may part, or whole_row; totals of
                             // longer runs are measured

    // Bytes from which on a bucket of tensors is full, through which blocks are counted: encode()
    // needs TrainingStep::bucket; 0: they are counted through a tensor.
    std::size_t bucket = 0;
    // Elements of a run, counted from the start of a row, on which alone the encoding of each of
    // its elements depends, in rows of one worker; 0: it depends on the whole row.
    std::size_t block = 0;
    // Of a bucket: the result for a tensor depends on the whole shards that it lies in.
    bool whole_shards = false;

    // Memory.
    bool keeps_state = false;           // steps must come in order
    bool feeds_errors_back = false;     // remembers what it did not send
    bool chooses_from_updates = false;  // of error feedback: the scheme inside does
    // Random words, beside those of the float grid: they decide something, in the sum, too.
    bool encode_draws = false, reduce_draws = false;
    // What was to be sent (a momentum) is a truth of its own, beside the gradient.
    bool compares_intended = false;
    bool is_exact_sum = false;    // reduce() is the sum of the values, but for fp64's rounding
    bool sees_special = false;    // elements that are not finite do not bypass it
    bool rounds_special = false;  // they reach encode() alone, which works element by element
    bool rounds_turned = false;   // encode() turns what it rounds to another basis, and back
    // What it sends of an element depends on all of the tensor's by more than a scale or levels: it
    // is chosen among them, or computed of them together (factors, a Fourier transform).
    bool mixes_elements = false;
    // Of choose(): needs the sums of AgreedStatistics; gives several tensors one scale; asks what a
    // step's reduction would come to, so that every topology has decisions of its own.
    bool wants_sums = false, joins_tensors = false, looks_ahead = false;

    // Parts
    // ------------------------------------------------------------------------------------------

    // Makes room in the state for a row of `size` a worker, before all else.
    std::function<void(State&, std::size_t workers, std::size_t size)> begin;
    // What the state takes from a worker's gradients before anything is computed: once an element
    // and step.
    std::function<void(State&, const Place&, std::span<const double> gradients, std::size_t worker)>
        take;
    // From the gradients to what the worker wants to send, in place; as often as it is read.
    std::function<void(const State&, const Place&, std::span<double>, std::size_t worker)>
        compensate;
    // The same for all workers at once, before it, on whole rows only.
    std::function<void(const TrainingStep&, State&, Rows&)> compensate_all;
    // From there to what select(), measure() and encode() get, where that is something else: from
    // the rows of all workers, and then for each in place. Beside forward(), select() and measure()
    // work on whole rows only.
    std::function<void(const TrainingStep&, const State&, const Rows& intended, Rows& x)> forward;
    std::function<void(const State&, const Place&, std::span<double>, std::size_t worker)> adjust;
    // Parameters in one of two scopes: from the rows of one tensor at one step, for all workers, or
    // from the agreed statistics of all steps and tensors. Draws nothing, unless on whole rows.
    std::function<Parameters(const Selection&)> select;
    Choose choose;
    // What the step's words decide for all workers and pieces, added to what was chosen; rows are
    // of `size`. All messages are then drawn by the same words: the variance of their sum is not
    // the sum of theirs.
    std::function<void(const TrainingStep&, Parameters&, std::size_t size)> draw;
    // The totals of a worker's row that its own encode() needs, as numbers of any meaning; draws
    // nothing.
    std::function<Row(const WorkerRow&)> measure;
    // Encodes and reduces where encode() and reduce() are left out.
    std::optional<FloatEncoder> float_encoder;
    // The same of two phases: a faster path for the bits of the other parts (float_phases.h).
    std::shared_ptr<const FloatPhases> float_phases;
    // Fills in the message, which may be that of another piece.
    std::function<void(const RowPiece&, Message&)> encode;
    // Without one, and without a float encoder: gathered_sum().
    std::function<void(const SentPieces&, Row& sum)> reduce;
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

    // What follows from them
    // ------------------------------------------------------------------------------------------

    bool compensates() const { return begin || take || compensate || compensate_all; }
    bool transforms() const { return forward || adjust; }
    bool selects() const { return select || choose; }
    bool updates() const { return update || end; }
    // In another basis an element of the message belongs to no single element of the gradient.
    bool encodes_special() const { return rounds_special && !forward && !inverse; }
    // Reduces by any topology, as its caller asks; never changes the state.
    bool crosses_topologies() const {
        return float_encoder && !float_encoder->reduction.gathers() && !reduce && !decode_sum;
    }
    bool draws() const {
        return encode_draws || (float_encoder && (is_stochastic(float_encoder->grid) ||
                                                  float_encoder->reduction.draws()));
    }
    bool sums_draw() const {
        return reduce_draws || (crosses_topologies() && float_encoder->reduction.draws());
    }
    // What it needs of the agreed statistics, added to what others need.
    void add_to(WantedStatistics& wanted) const {
        wanted.sums = wanted.sums || wants_sums;
        wanted.largest_sum = wanted.largest_sum || looks_ahead;
    }
    // Consists of a choice for all tensors and a float encoder: such schemes go through a block
    // together (float_exchange.h).
    bool streams() const {
        return choose && float_encoder && !select && !compensates() && !transforms() &&
               !updates() && !draw && !measure && !encode && !reduce && !decode_sum && !inverse &&
               !compares_intended;
    }

    // ahead: for a scheme that looks ahead.
    Parameters parameters(const Selection& given, const Lookahead* ahead = nullptr) const;
    void make(const RowPiece& piece, Message& m) const;
    void add(const SentPieces& sent, Row& sum) const;
};

struct Scheme {
    std::string spec;    // canonical: parses back to this scheme
    std::string name;    // the registered name
    std::string family;  // its family: that of its definition, or of the scheme inside
    std::string format;  // format name as given in the spec; empty for grids that take keys only
    std::string note;    // written into every row
    std::map<std::string, std::string> keys;  // every key, including defaults
    SchemeParts parts;
    Policy policy;  // its branches instead of parts; none of any other scheme

    bool is_policy() const { return !policy.branches.empty(); }
    // Throws std::invalid_argument for a policy, whose branches are schemes of their own.
    const SchemeParts& own_parts() const;
    // The same for a combinator, which sees one tensor at a time. Also throws for a scheme whose
    // scales or blocks apply to several tensors.
    const SchemeParts& inner_parts() const;
};

}  // namespace apscope::detail
