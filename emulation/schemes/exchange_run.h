// Runs one exchange of a scheme piece by piece, so that each piece stays in cache. A first pass
// over the gradients computes the statistics of complete rows. If a row has several pieces, no
// buffer is as long as the tensor, except the scheme's own memory and a sum that is encoded as a
// whole (WholeSum), for which a pass before the others encodes and adds all messages. The complete
// row is the only piece if the scheme's parts need complete rows (scheme.h) or if the tensor is no
// longer than a piece.
//
//      ExchangeRun x(parts, step, state, gradients, topologies);   computes statistics of rows
//                                                                  and chooses the parameters
//      for (first = 0; first < elements; first += x.piece())
//          x.read(first), x.send(step.key, true);                  computes one piece of the
//                                                                  Exchange and of the next state
//      x.end();
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "emulation/schemes/lookahead.h"
#include "emulation/schemes/scheme.h"
#include "emulation/schemes/special_values.h"

namespace apscope::detail {

class ExchangeRun {
public:
    // The arguments must outlive the object. at_once: use one piece, even if the parts allow
    // several.
    ExchangeRun(const SchemeParts& parts, const TrainingStep& step, State& state,
                std::span<const std::span<const float>> gradients,
                std::span<const Topology> topologies, bool at_once = false);
    ExchangeRun(const ExchangeRun&) = delete;
    ExchangeRun& operator=(const ExchangeRun&) = delete;

    // The number of elements of a piece: a multiple of sum_block, or the length of the row. The
    // last piece may be shorter.
    std::size_t piece() const { return piece_; }
    bool skipped() const { return theta_.skipped; }
    std::optional<int> scale_exponent() const { return theta_.scale_exponent; }

    // Reads the values that the workers want to send; called for each piece once, in order.
    void read(std::size_t first);
    // The messages and sums of the current piece, drawn with this key; valid until the next call.
    // If `keeps`, the state is updated for the next step. With a sum that is encoded as a whole,
    // and several pieces, the key is that of the step.
    Exchange& send(const PhiloxKey& key, bool keeps);
    // The exchange of the current piece, as far as read() and send() have filled it in.
    const Exchange& at_hand() const { return e_; }
    // Ends the step, after the last piece.
    void end();

private:
    Place place() const { return {first_, elements_}; }
    bool is_one() const { return piece_ >= elements_; }
    std::size_t count_at(std::size_t first) const { return std::min(piece_, elements_ - first); }
    const Row& encoded(std::size_t worker) const {
        return turned_.empty() ? e_.intended[worker] : turned_[worker];
    }
    void place_special();
    // True if the scales in the parameters are those of a float grid in the gradient's own basis.
    bool names_scales() const { return parts_.encoding.float_encoder && !parts_.basis.inverse; }
    SumsAhead look_ahead() const;
    // Makes the rows of the scheme's memory that are missing.
    void begin_memory();
    void take_all();
    void read_piece(std::size_t first);
    const Parameters& drawn(const PhiloxKey& key);
    std::vector<RowReader> readers();
    void count_special();
    // Makes whole_sum_ and its moments.
    void add_ahead();
    bool adds_ahead() const { return !is_one() && parts_.encoding.whole_sum; }
    void encode(const Parameters& theta);
    void reduce(const Parameters& theta);
    void turn_back();
    void check(const Row& row, std::size_t length, const char* part) const;

    const SchemeParts& parts_;
    TrainingStep step_;
    State& state_;
    std::span<const std::span<const float>> gradients_;
    std::span<const Topology> topologies_;
    std::size_t elements_, piece_, first_ = 0;
    bool takes_;  // read_piece() calls take(), because there was no earlier pass
    Parameters theta_;
    // The parameters after draw(), one entry per key.
    std::vector<std::pair<PhiloxKey, Parameters>> drawn_;
    Rows own_;       // the results of measure(), one row per worker
    Row buffer_;     // the elements of the last call of a reader
    Rows turned_;    // the rows after forward() and adjust(); empty if the scheme has neither
    Row whole_sum_;  // the encoded sum of all pieces, if adds_ahead()
    SumMoments whole_moments_;
    Exchange e_;
    std::vector<SpecialValue> special_;  // elements of the current piece that are not finite
};

// One exchange of complete rows. gradients: one row of fp32 values per worker, equally long. If
// crosses_topologies() is true, each of `topologies` reduces the messages; otherwise the scheme's
// own reduction runs once. Throws std::invalid_argument if a part of the scheme returns a row of
// the wrong length.
Exchange exchange(const SchemeParts& parts, const TrainingStep& step, State& state,
                  std::span<const std::span<const float>> gradients,
                  std::span<const Topology> topologies = {});

}  // namespace apscope::detail
