// One exchange of a scheme with a block part (tensor_scheme.h), piece by piece: its totals in a
// first pass over the gradients, everything else in cache. The bits of exchange(); nothing
// allocated is as long as the tensor but what the scheme itself remembers.
//
//      BlockExchange x(scheme, step, state, gradients, topologies);        the totals of all
//      workers, then select() for (first = 0; first < elements; first += x.piece())
//          x.read(first), x.send(step.key, true)                           that piece of the
//          Exchange, and of the next state
//      x.end()
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "emulation/schemes/special_values.h"
#include "emulation/schemes/tensor_scheme.h"

namespace apscope::detail {

// Of a scheme that has one; else std::logic_error.
const BlockPart& block_part(const TensorScheme& scheme);

class BlockExchange {
public:
    // What is handed over must outlive it.
    BlockExchange(const TensorScheme& scheme, const TrainingStep& step, State& state,
                  std::span<const std::span<const float>> gradients,
                  std::span<const Topology> topologies);

    // Elements of a piece; the last may be shorter. A multiple of a block of the sums.
    std::size_t piece() const { return piece_; }
    bool skipped() const { return theta_.skipped; }
    std::optional<int> scale_exponent() const { return theta_.scale_exponent; }

    // Each piece once, in order: what the workers want to send of it.
    void read(std::size_t first);
    // Messages and sums of the piece at hand with the words of this key, good until the next call.
    // keeps: the state takes what it needs of them for the next step.
    const Exchange& send(const PhiloxKey& key, bool keeps);
    void end();

private:
    Place place() const { return {first_, elements_}; }
    std::size_t count_at(std::size_t first) const { return std::min(piece_, elements_ - first); }
    void take_all();
    const Parameters& drawn(const PhiloxKey& key);
    std::vector<RowReader> readers();

    const TensorScheme& scheme_;
    const BlockPart& part_;
    TrainingStep step_;
    State& state_;
    std::span<const std::span<const float>> gradients_;
    std::span<const Topology> topologies_;
    std::size_t elements_, piece_, first_ = 0;
    bool takes_;  // in read(): no pass went before
    Parameters theta_;
    // The same with what each key's words decided.
    std::vector<std::pair<PhiloxKey, Parameters>> drawn_;
    Rows own_;    // of each worker, as measured
    Row buffer_;  // of the readers
    Rows turned_;  // what forward() and adjust() made
    Exchange e_;
    std::vector<SpecialValue> special_;  // of the piece at hand
};

}  // namespace apscope::detail
