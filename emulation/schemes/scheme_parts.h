// The four parts of a scheme (scheme.h): the choice of parameters, the memory from step to step,
// the basis in which values are encoded, and the encoding with the reduction. Each function may be
// empty.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "emulation/schemes/block_encoding.h"
#include "emulation/schemes/choice.h"
#include "emulation/schemes/codecs/uniform_grid.h"
#include "emulation/schemes/exchange.h"
#include "emulation/schemes/float_encoder.h"

namespace apscope::detail {

struct PlainPhases;

// SchemeChoice::draw of messages that depend on common random words, but on no drawn parameter.
inline void common_words(const TrainingStep&, Parameters&, std::size_t) {}

struct SchemeChoice {
    // The two functions choose the parameters for all workers: select() from the rows of one tensor
    // at one step, choose() from statistics of all steps and tensors. They may use random words
    // only if SchemeParts::run is whole_row.
    std::function<Parameters(const Selection&)> select = {};
    Choose choose = {};
    bool needs_sums = false,    // choose() needs the sums of AgreedStatistics
        joins_tensors = false,  // choose() gives several tensors one scale
        looks_ahead = false,    // choose() uses Lookahead, so decisions depend on the topology
        is_constant = false;    // the parameters do not depend on tensors, steps, rows and states
    // Adds parameters that are drawn from the step's random words, for all workers and pieces; rows
    // have `size` elements. All messages then depend on the same random words, so the variance of
    // their sum is not the sum of their variances.
    std::function<void(const TrainingStep&, Parameters&, std::size_t size)> draw = {};
    // Computes numbers from a worker's complete row, such as sums, that encode() of the same row
    // gets. It must not use random words.
    std::function<Row(const WorkerRow&)> measure = {};

    bool selects() const { return select || choose; }
    // True if the parameters depend on the rows of all workers.
    bool needs_all_rows() const { return selects() && !is_constant; }
    // True if choose() decides for each tensor at each step from the amax and the counts of only
    // this tensor and step.
    bool is_alone() const { return !needs_sums && !joins_tensors && !looks_ahead; }
    // The result of select() or choose(). ahead: not null if looks_ahead is true.
    Parameters parameters(const Selection& selection, const Lookahead* ahead = nullptr) const;
};

struct SchemeMemory {
    // Called first: allocates the state's rows of `size` elements, one per worker.
    std::function<void(State&, std::size_t workers, std::size_t size)> begin = {};
    // Updates the state from a worker's gradients, before the functions below get them; each
    // element is passed once per step.
    std::function<void(State&, const Place&, std::span<const double> gradients, std::size_t worker)>
        take = {};
    // Converts gradients to the values that the worker wants to send, in place. It is called
    // whenever the elements are read, which may be several times per step.
    std::function<void(const State&, const Place&, std::span<double>, std::size_t worker)>
        compensate = {};
    // Converts the gradients of all workers at once, before compensate(); rows are complete.
    std::function<void(const TrainingStep&, State&, Rows&)> compensate_all = {};
    // update() computes the next step's state from a piece of the exchange; end() is called once
    // per step, after the last piece.
    std::function<void(const TrainingStep&, State&, const Place&, const Exchange&)> update = {};
    std::function<void(const TrainingStep&, State&)> end = {};

    // True if steps must come in order. If not set: true if one of the functions above is set.
    std::optional<bool> keeps = {};
    bool feeds_errors_back = false;  // adds errors of a step to the next step's values
    // True if a function needs the rows of all workers, so that no worker can compute its memory
    // alone.
    bool needs_all_rows = false;
    // True for error feedback whose inner scheme chooses parameters from a state that this scheme
    // also updates.
    bool chooses_from_updates = false;
    // True if results also compare sent values with the intended values, such as a momentum (column
    // own_nmse).
    bool compares_intended = false;

    bool compensates() const { return begin || take || compensate || compensate_all; }
    bool updates() const { return update || end; }
};

struct SchemeBasis {
    // Convert the values that the workers want to send to the input of select(), measure() and
    // encode(): forward() for all workers, then adjust() for each worker in place. With forward(),
    // select() and measure() get complete rows.
    std::function<void(const TrainingStep&, const State&, const Rows& intended, Rows& x)> forward =
        {};
    std::function<void(const State&, const Place&, std::span<double>, std::size_t worker)> adjust =
        {};
    // Transforms the rows of all messages and sums back after the reduction, in place. The
    // transform must be linear; it gets complete rows and returns rows of the tensor's length. The
    // variances of messages are then unknown.
    std::function<void(const TrainingStep&, const State&, std::span<Row* const>)> inverse = {};
    bool turns_in_encode = false;  // encode() rounds in another basis and itself transforms back

    bool transforms() const { return forward || adjust; }
};

// A reduction that encodes the sum of complete messages, which may be added piece by piece.
struct WholeSum {
    std::size_t run;       // SchemeParts::run of the messages; the sum is encoded as a whole
    bool needs_variances;  // encode() needs to know whether the messages' variances are known
    // Adds the messages of a piece.
    std::function<void(const SentPieces&, Row& sum)> add;
    // Encodes the complete sum, in place.
    std::function<void(const AddedRows&, Row& sum)> encode;
};

struct SchemeEncoding {
    // Fills in the message, which may still have the contents of another piece.
    std::function<void(const RowPiece&, Message&)> encode = {};
    // Adds the messages. If reduce() is empty and there is no float encoder, gathered_sum() adds
    // them.
    std::function<void(const SentPieces&, Row& sum)> reduce = {};
    // The two parts of reduce(), if the scheme has neither memory nor a bucket.
    std::optional<WholeSum> whole_sum = {};
    // Replaces reduce() if codes can be added: converts the sum of the codes, which were added in
    // rank order, to decoded values, in place. The codes are then removed from the messages.
    std::function<void(const TrainingStep&, const Parameters&, Row& sum)> decode_sum = {};
    // Encodes if encode() is empty, and reduces if reduce() is empty.
    std::optional<FloatEncoder> float_encoder = {};
    // The fast path of two phases, with the same bits as the other functions (float_phases.h).
    std::shared_ptr<const PlainPhases> float_phases = {};
    // What a device needs to know in place of encode(), and in two phases of encode() and reduce().
    std::optional<BlockEncoding> blocks = {};
    std::optional<UnitEncoding> units = {};
    std::optional<UniformGrid> uniform = {};
    std::shared_ptr<const PlainPhases> plain_phases = {};
    // The bytes of the tables that each thread stores for rows of this length, besides the memory
    // that is counted per element.
    std::function<std::size_t(std::size_t elements)> tables = {};

    // True if the random words of messages that are added are correlated: those of different
    // workers are in different W-th parts of [0, 1), so that errors of the sum cancel
    // (core/philox.h).
    bool correlated = false;
    bool draws = false,         // messages depend on random words, besides those of the float grid
        sum_draws = false;      // the sum of given messages depends on random words
    bool is_exact_sum = false;  // reduce() gives the sum of the values, up to fp64's rounding
    bool sees_special = false;  // all parts of the scheme get elements that are not finite
    // Only encode() gets elements that are not finite; it must work element by element.
    bool rounds_special = false;
    // The message of an element depends on the other elements by more than a scale or levels:
    // elements are selected, or transformed together (factors, a Fourier transform).
    bool mixes_elements = false;

    // True if every topology can reduce the messages. Such a reduction never changes the state.
    bool crosses_topologies() const {
        return float_encoder && !float_encoder->reduction.gathers() && !reduce && !decode_sum;
    }
    bool reduces() const { return reduce || decode_sum; }  // true: the scheme has its own reduction
    // Encodes a piece with encode() or the float encoder.
    void make(const RowPiece& piece, Message& m) const;
    // Adds messages with reduce(), the float encoder or gathered_sum().
    void add(const SentPieces& sent, Row& sum) const;
};

}  // namespace apscope::detail
