// The fast path of two phases (two_phase.h) whose encodings are float grids under one scale for
// every row: the messages and sums of one tensor at one step, block by block. It gives the bits of
// the composition; of a row nothing is kept but the sum of the shards that a block lies in.
//
//      encode(w, ...)     of every worker, a block
//      reduce(...)        the sum of that block; blocks in order
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "emulation/schemes/float_wire.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

struct Shard;  // two_phase.h

// Both encodings, of schemes that stream and remember nothing.
struct FloatPhases {
    std::shared_ptr<const Scheme> leaf, finish;  // finish: null where a sum is not encoded
};
// Where there is such a path for them; finish as above.
std::shared_ptr<const FloatPhases> float_phases(const TwoPhase& phases,
                                                std::shared_ptr<const Scheme> leaf,
                                                std::shared_ptr<const Scheme> finish);

class PhaseExchange {
public:
    // The arguments must outlive it. ahead: buffers for what comes before its turn.
    PhaseExchange(const FloatPhases& phases, const TrainingStep& step,
                  std::span<const std::span<const float>> gradients, FloatBuffers& buffers,
                  FloatBuffers& ahead);

    bool skipped() const { return skipped_; }
    std::optional<int> scale_exponent() const { return scale_exponent_; }
    // Of phase 1; workers with the same scale share one.
    std::size_t wires() const { return leaves_.wires.size(); }
    FloatWire& wire(std::size_t i) { return *leaves_.wires[i]; }
    std::size_t wire_of(std::size_t w) const { return wire_of_[w]; }

    // The messages of elements first .. first + y.size() - 1 are in the buffers.
    void exact_sum(std::span<double> y) const;
    void reduce(std::size_t first, std::span<double> y);

private:
    // The wires of one encoder, one for every scale.
    struct Wires {
        const SchemeParts& parts;
        std::vector<Decision> decisions;
        std::vector<std::unique_ptr<FloatWire>> wires;

        std::size_t of(const Decision& decision);
    };
    std::size_t workers() const { return gradients_.size(); }
    std::size_t elements() const { return gradients_[0].size(); }
    Decision choose(const SchemeParts& parts, std::span<const float> row) const;
    void add_up(std::span<float> sum, const FloatBuffers& buffers, std::size_t at) const;
    void sum_of(const Shard& shard, std::size_t first, std::size_t count);
    void finish(std::size_t s, const Shard& shard);

    const FloatPhases& phases_;
    TrainingStep step_;  // as a scheme with one worker sees it
    std::span<const std::span<const float>> gradients_;
    FloatBuffers &buffers_, &ahead_;
    Wires leaves_;
    std::optional<Wires> others_;       // of phase 2, where its encoder is another
    std::vector<std::size_t> wire_of_;  // of each worker
    bool skipped_ = false;
    std::optional<int> scale_exponent_;
    Buffer<float> sum_;                      // of a shard
    Buffer<double> done_;                    // what is decoded of the shards at hand
    std::size_t done_first_ = 0, next_ = 0;  // its first element; the shard after it
};

}  // namespace apscope::detail
