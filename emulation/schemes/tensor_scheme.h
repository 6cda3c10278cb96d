// TensorScheme: a scheme that needs a worker's whole tensor, or remembers something from step to
// step: error feedback, sparsity, transforms, codebooks, votes. Schemes that only scale and round
// to a float grid are data in a Scheme and run block by block (scheme.h).
//
// The parts are the steps of docs/schemes.md. Every part may be left out; a scheme's own file fills
// in the few that make it what it is, from the codecs of emulation/codecs. One exchange:
//
//      intended = compensate(gradients)    what the workers want to send, in place
//      x        = forward(intended)        a change of basis
//      theta    = select(x)                statistic, agreement and parameters, for all workers
//      sent_w   = encode(theta, x_w)       one message a worker
//      y        = reduce(theta, sent)      the sum over the workers
//      sent_w, y = inverse(...)            back to the gradient's basis
//      update(...)                         the state for the next step
//
// Elements that are not finite bypass a scheme, unless it wants to see them: they count as 0 in it and come
// out as they went in.
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

// What select() chose for one step and all workers. Python sees the first four under these names, where they are set,
// and the scheme's own parts beside them.
struct Parameters {
    std::optional<double> scale;        // of every element
    Row scales;                         // one an element, where they differ
    std::optional<int> scale_exponent;  // s where one power of two 2^s scales all
    bool skipped = false;               // the scheme drops this step
    Record own;                         // what else the scheme's encode and reduce must know

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
    std::size_t index = 0;    // among the steps replayed, from 0
    int workers = 1;
    PhiloxKey key{};          // of all draws of this tensor at this step
    double loss = std::numeric_limits<double>::quiet_NaN(), learning_rate = std::numeric_limits<double>::quiet_NaN();
    std::span<const float> weights, full_batch;  // empty where not recorded
    bool packs = false;       // messages carry their payload, not its length alone

    // A worker's random words; `hop` keeps apart what one worker draws more than once.
    RandomStream stream(int worker, int random_bits, std::uint32_t hop = 0) const {
        return {key, static_cast<std::uint32_t>(worker), stage_and_hop(Stage::wire, hop), random_bits};
    }
    // Words that all workers share: signs of a rotation, a random start.
    RandomStream shared_stream(int random_bits, std::uint32_t hop = 0) const { return {key, 0, stage_and_hop(Stage::reduce, hop), random_bits}; }
};

// Of the tensor, by its shape.
inline std::size_t elements_of(const TrainingStep& step) {
    std::size_t n = 1;
    for (const std::int64_t axis : step.shape) n *= static_cast<std::size_t>(axis);
    return n;
}

// What one worker put on the wire.
struct Message {
    Row values;                         // what a receiver reads, as long as the input
    Row codes;                          // what is added where codes are: scaled values or integers; else empty
    Row bias, variance;                 // E[value] - input and Var[value] over the draws, NaN where not known; empty if
                                        // `certain`, or if none is known
    bool certain = false;               // nothing was drawn for it, though the scheme draws elsewhere
    std::optional<GridUse> grid_use;    // of what was rounded to a float grid, in the basis it was rounded in
    std::vector<std::uint8_t> saturated;  // 1 an element that grid_use counts as saturated; empty if there is none
    std::optional<BlockUse> block_use;  // where blocks of a float grid have scales of their own
    std::vector<std::uint8_t> payload;  // if TrainingStep::packs
    std::uint64_t payload_bits = 0, side_bits = 0;
};

struct Exchange {
    Rows intended;              // what the workers wanted to send
    std::vector<Message> sent;  // values in the gradient's own basis
    Rows reduced;               // the sums over the workers, one a topology
    Row scales;                 // the agreed scale of every element, or one for all, on the scheme's float grid; else empty
    std::optional<int> scale_exponent;  // s where one power of two 2^s scaled all
    bool skipped = false;       // the scheme dropped this step
};

struct TensorScheme {
    std::string grid;                  // column `format`: sign, levels:16, a float format
    std::string topology{reductions::gather};  // column `topology` of its own reduction
    bool crosses_topologies = false;   // reduces by any topology, as its caller asks; never changes the state
    bool keeps_state = false;          // steps must come in order
    bool compares_intended = false;    // what was to be sent (a momentum) is a truth of its own, beside the gradient
    bool is_exact_sum = false;         // reduce() is the sum of the values, but for fp64's rounding
    bool draws = false;                // random words decide something
    bool reduction_draws = false;      // in reduce() too, not in encode() alone
    bool shares_draws = false;         // all messages are drawn by the same words: variances of their sum are not sums of theirs
    bool sees_special = false;         // elements that are not finite do not bypass it
    std::optional<GridLimits> limits;  // of the float grid under the agreed scale that select() names: scale or scales
    Transport transport;               // of its messages
    std::vector<std::string> needs;    // of weights, full_batch, loss, learning_rate

    std::function<void(const TrainingStep&, State&, Rows&)> compensate;
    std::function<Rows(const TrainingStep&, const State&, const Rows&)> forward;
    std::function<Row(const TrainingStep&, const State&, const Row&)> inverse;  // linear; gives back the tensor's length
    // What inverse() makes of the variances of independent values; without one they are lost there.
    std::function<Row(const TrainingStep&, const State&, const Row&)> inverse_variance;
    std::function<Parameters(const TrainingStep&, State&, const Rows&)> select;
    std::function<Message(const TrainingStep&, const Parameters& theta, std::span<const double>, int worker)> encode;
    // Without one: values narrowed to fp32 and added in fp32, in rank order (gather).
    std::function<Row(const TrainingStep&, State&, const Parameters& theta, const std::vector<Message>&, const Topology&)> reduce;
    std::function<void(const TrainingStep&, State&, const Exchange&)> update;
};

// One step of one tensor. gradients: one row of fp32 values a worker, equally long. `topologies` is
// used by schemes that cross with them; others reduce their own way, once. Throws std::logic_error
// where a part gives rows of the wrong length.
Exchange exchange(const TensorScheme& scheme, const TrainingStep& step, State& state, std::span<const std::span<const float>> gradients,
                  std::span<const Topology> topologies = {});

// The same on rows of fp64 values, all finite.
Exchange exchange_rows(const TensorScheme& scheme, const TrainingStep& step, State& state, Rows gradients, std::span<const Topology> topologies = {});

// Sums in rank order: of fp64 values, and of values narrowed to fp32 with fp32 additions.
Row exact_sum(const std::vector<Message>& sent);
Row gathered_sum(const std::vector<Message>& sent);
// Of the integers that codes are: exact in any order.
Row sum_of_codes(const std::vector<Message>& sent);

}  // namespace apscope::detail
