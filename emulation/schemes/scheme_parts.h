// The four parts of a scheme (scheme.h): how it chooses its parameters, what it remembers, in which
// basis it works, how it encodes and adds. Each function may be left out.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "emulation/schemes/choice.h"
#include "emulation/schemes/exchange.h"
#include "emulation/schemes/float_encoder.h"

namespace apscope::detail {

struct FloatPhases;

struct SchemeChoice {
    // The parameters, in one of two scopes: from the rows of one tensor at one step, for all
    // workers, or from the agreed statistics of all steps and tensors. Draws nothing, unless on
    // whole rows.
    std::function<Parameters(const Selection&)> select = {};
    Choose choose = {};
    // What choose() does: needs the sums of AgreedStatistics; gives several tensors one scale; asks
    // what a step's reduction would come to, so that every topology has decisions of its own.
    bool wants_sums = false, joins_tensors = false, looks_ahead = false;
    // What the step's words decide for all workers and pieces, added to what was chosen; rows are
    // of `size`. All messages are then drawn by the same words: the variance of their sum is not
    // the sum of theirs.
    std::function<void(const TrainingStep&, Parameters&, std::size_t size)> draw = {};
    // The totals of a worker's row that its own encode() needs, as numbers of any meaning; draws
    // nothing.
    std::function<Row(const WorkerRow&)> measure = {};

    bool selects() const { return select || choose; }
    // Of one tensor by itself at each step.
    bool is_alone() const { return !wants_sums && !joins_tensors && !looks_ahead; }
    // ahead: for a scheme that looks ahead.
    Parameters parameters(const Selection& given, const Lookahead* ahead = nullptr) const;
};

struct SchemeMemory {
    // Makes room in the state for a row of `size` a worker, before all else.
    std::function<void(State&, std::size_t workers, std::size_t size)> begin = {};
    // What the state takes from a worker's gradients before anything is computed: once an element
    // and step.
    std::function<void(State&, const Place&, std::span<const double> gradients, std::size_t worker)>
        take = {};
    // From the gradients to what the worker wants to send, in place; as often as it is read.
    std::function<void(const State&, const Place&, std::span<double>, std::size_t worker)>
        compensate = {};
    // The same for all workers at once, before it, on whole rows only.
    std::function<void(const TrainingStep&, State&, Rows&)> compensate_all = {};
    // The state for the next step, from a piece of the exchange; then, once a step, what is left to
    // do.
    std::function<void(const TrainingStep&, State&, const Place&, const Exchange&)> update = {};
    std::function<void(const TrainingStep&, State&)> end = {};

    std::optional<bool> keeps = {};     // steps must come in order; if some of these, by default
    bool feeds_errors_back = false;     // remembers what it did not send
    bool chooses_from_updates = false;  // of error feedback: the scheme inside does
    // What was to be sent (a momentum) is a truth of its own, beside the gradient.
    bool compares_intended = false;

    bool compensates() const { return begin || take || compensate || compensate_all; }
    bool updates() const { return update || end; }
};

struct SchemeBasis {
    // From what the workers want to send to what select(), measure() and encode() get: from the
    // rows of all workers, and then for each in place. Beside forward(), select() and measure()
    // work on whole rows only.
    std::function<void(const TrainingStep&, const State&, const Rows& intended, Rows& x)> forward =
        {};
    std::function<void(const State&, const Place&, std::span<double>, std::size_t worker)> adjust =
        {};
    // Of messages and sums, after the sum, on whole rows only; linear, in place; gives back the
    // tensor's length. The variances of messages are not known after it.
    std::function<void(const TrainingStep&, const State&, Row&)> inverse = {};
    bool turns_in_encode = false;  // encode() turns what it rounds to another basis, and back

    bool transforms() const { return forward || adjust; }
};

struct SchemeEncoding {
    // Fills in the message, which may be that of another piece.
    std::function<void(const RowPiece&, Message&)> encode = {};
    // The sum of the messages. Without one, and without a float encoder: gathered_sum().
    std::function<void(const SentPieces&, Row& sum)> reduce = {};
    // Instead of it, where codes add up: from their sum, in rank order, to what it stands for, in
    // place. No message keeps its codes then.
    std::function<void(const TrainingStep&, const Parameters&, Row& sum)> decode_sum = {};
    // Encodes and reduces where encode() and reduce() are left out.
    std::optional<FloatEncoder> float_encoder = {};
    // The same of two phases: a faster path for the bits of the other parts (float_phases.h).
    std::shared_ptr<const FloatPhases> float_phases = {};
    // Bytes of the tables that a thread keeps for rows of so many elements, beside what grows with
    // them.
    std::function<std::size_t(std::size_t elements)> tables = {};

    // Random words, beside those of the float grid: they decide something, in the sum, too.
    bool draws = false, sum_draws = false;
    bool is_exact_sum = false;    // reduce() is the sum of the values, but for fp64's rounding
    bool sees_special = false;    // elements that are not finite do not bypass it
    bool rounds_special = false;  // they reach encode() alone, which works element by element
    // What it sends of an element depends on all of the tensor's by more than a scale or levels: it
    // is chosen among them, or computed of them together (factors, a Fourier transform).
    bool mixes_elements = false;

    // Reduces by any topology, as its caller asks; never changes the state.
    bool crosses_topologies() const {
        return float_encoder && !float_encoder->reduction.gathers() && !reduce && !decode_sum;
    }
    bool reduces() const { return reduce || decode_sum; }  // in its own way
    void make(const RowPiece& piece, Message& m) const;
    void add(const SentPieces& sent, Row& sum) const;
};

}  // namespace apscope::detail
