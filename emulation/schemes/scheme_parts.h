// The four parts of a scheme (scheme.h): the choice of its parameters, its memory, the basis in
// which it works, and its encoding, with the sum. Each function may be left out.
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
    // workers, or from the agreed statistics of all steps and tensors. Draws nothing, except on
    // complete rows.
    std::function<Parameters(const Selection&)> select = {};
    Choose choose = {};
    // Properties of choose(): it needs the sums of AgreedStatistics; it gives several tensors one
    // scale; it asks for the result of a step's reduction, so decisions differ between topologies.
    bool wants_sums = false, joins_tensors = false, looks_ahead = false;
    // Adds the choices by the step's words, for all workers and pieces, to the parameters; rows
    // have `size` elements. All messages are then drawn by the same words, so the variance of their
    // sum is not the sum of their variances.
    std::function<void(const TrainingStep&, Parameters&, std::size_t size)> draw = {};
    // The totals of a worker's row that encode() needs for it, as numbers of any meaning; draws
    // nothing.
    std::function<Row(const WorkerRow&)> measure = {};

    bool selects() const { return select || choose; }
    // True if it depends only on one tensor, at each step.
    bool is_alone() const { return !wants_sums && !joins_tensors && !looks_ahead; }
    // ahead: for a scheme that looks ahead.
    Parameters parameters(const Selection& given, const Lookahead* ahead = nullptr) const;
};

struct SchemeMemory {
    // Makes room in the state for a row of `size` per worker, before everything else.
    std::function<void(State&, std::size_t workers, std::size_t size)> begin = {};
    // Updates the state from a worker's gradients before anything is computed: once per element and
    // step.
    std::function<void(State&, const Place&, std::span<const double> gradients, std::size_t worker)>
        take = {};
    // Turns the gradients into the values that the worker wants to send, in place; called whenever
    // they are read.
    std::function<void(const State&, const Place&, std::span<double>, std::size_t worker)>
        compensate = {};
    // The same for all workers at once, before it, on complete rows only.
    std::function<void(const TrainingStep&, State&, Rows&)> compensate_all = {};
    // Updates the state for the next step, from a piece of the exchange; end() follows once per
    // step.
    std::function<void(const TrainingStep&, State&, const Place&, const Exchange&)> update = {};
    std::function<void(const TrainingStep&, State&)> end = {};

    std::optional<bool> keeps = {};     // steps must come in order; default: some function is given
    bool feeds_errors_back = false;     // remembers the part that it did not send
    bool chooses_from_updates = false;  // for error feedback: the inner scheme does
    // The intended values (a momentum) are a reference of their own, besides the gradient.
    bool compares_intended = false;

    bool compensates() const { return begin || take || compensate || compensate_all; }
    bool updates() const { return update || end; }
};

struct SchemeBasis {
    // Turn the values that the workers want to send into the input of select(), measure() and
    // encode(): first from the rows of all workers, then for each row in place. With forward(),
    // select() and measure() work on complete rows only.
    std::function<void(const TrainingStep&, const State&, const Rows& intended, Rows& x)> forward =
        {};
    std::function<void(const State&, const Place&, std::span<double>, std::size_t worker)> adjust =
        {};
    // The inverse of these, for messages and sums, after the sum, on complete rows only; linear, in
    // place; it restores the tensor's length. The variances of messages are then unknown.
    std::function<void(const TrainingStep&, const State&, Row&)> inverse = {};
    bool turns_in_encode = false;  // encode() rounds in another basis, and turns back

    bool transforms() const { return forward || adjust; }
};

struct SchemeEncoding {
    // Fills in the message, which may be that of another piece.
    std::function<void(const RowPiece&, Message&)> encode = {};
    // The sum of the messages; by default, without a float encoder, gathered_sum().
    std::function<void(const SentPieces&, Row& sum)> reduce = {};
    // Instead of reduce(), if codes add up: decodes their sum, made in rank order, in place. The
    // messages then do not keep their codes.
    std::function<void(const TrainingStep&, const Parameters&, Row& sum)> decode_sum = {};
    // Encodes and reduces if encode() and reduce() are left out.
    std::optional<FloatEncoder> float_encoder = {};
    // The same for two phases: a faster path with the bits of the other parts (float_phases.h).
    std::shared_ptr<const FloatPhases> float_phases = {};
    // The bytes of the tables that a thread keeps for rows with this number of elements, besides
    // memory that grows with the rows.
    std::function<std::size_t(std::size_t elements)> tables = {};

    // True if encode(), and the sum, draw random words besides those of the float grid.
    bool draws = false, sum_draws = false;
    bool is_exact_sum = false;    // reduce() is the sum of the values, except for fp64's rounding
    bool sees_special = false;    // elements that are not finite do not bypass it
    bool rounds_special = false;  // only encode() sees them, element by element
    // The message of an element depends on all of the tensor's elements by more than a scale or
    // levels: elements are selected, or encoded together (factors, a Fourier transform).
    bool mixes_elements = false;

    // True if any topology can reduce it, as the caller requests; the state never changes by it.
    bool crosses_topologies() const {
        return float_encoder && !float_encoder->reduction.gathers() && !reduce && !decode_sum;
    }
    bool reduces() const { return reduce || decode_sum; }  // a reduction of its own
    void make(const RowPiece& piece, Message& m) const;
    void add(const SentPieces& sent, Row& sum) const;
};

}  // namespace apscope::detail
