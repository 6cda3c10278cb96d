// The fast path of the reduction in two phases (two_phase.h) if the encodings are float grids with
// one scale per row. It computes the messages and sums of one tensor at one step, block by block.
// The results have the same bits as those of two_phase.cpp; only sums of the shards that overlap a
// block are stored.
//
//      wire(wire_of(w)).encode(...)   the messages of a block, for every worker
//      reduce(...)                    the sums of the block; call it for blocks in order
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "emulation/allreduce/shard.h"
#include "emulation/schemes/float_wire.h"
#include "emulation/schemes/two_phase.h"

namespace apscope::detail {

// True if the fast path serves these schemes: each has a float encoder as fast path
// (SchemeParts::streams) and no state.
bool are_float_phases(const PlainPhases& phases);

// The statistics of every row by itself.
std::vector<AgreedStatistics> statistics_of_rows(std::span<const std::span<const float>> rows);
// The choice of a row's scale by a scheme of one of the phases, from the row's largest magnitude
// and its number of elements that are not finite; no such scheme drops a step. step: that of one
// worker.
Decision choose_from_row(const SchemeParts& parts, const TrainingStep& step, AgreedStatistics row);

// The exchange of one tensor at one step.
class PhaseExchange {
public:
    // The arguments must outlive the object. statistics: of every row (statistics_of_rows). ahead:
    // buffers for messages of elements outside the current block, and for encoded sums.
    PhaseExchange(const PlainPhases& phases, const TrainingStep& step,
                  std::span<const std::span<const float>> gradients,
                  std::span<const AgreedStatistics> statistics, FloatBuffers& buffers,
                  FloatBuffers& ahead);

    std::optional<int> scale_exponent() const { return scale_exponent_; }
    // The FloatWires of phase 1. Workers with the same scale share one; wire_of(w) is the index of
    // the wire of worker w.
    std::size_t wires() const { return phase1_.wires.size(); }
    FloatWire& wire(std::size_t i) { return *phase1_.wires[i]; }
    std::size_t wire_of(std::size_t w) const { return wire_of_[w]; }
    // The FloatWire that phase 2 chooses for a shard's sum, and its grid. A reduction without phase
    // 2 has neither.
    FloatWire& sum_wire(const AgreedStatistics& sum);
    const FloatGrid& sum_grid() const;

    // exact_sum() and reduce() write sums of the elements whose messages are in the buffers:
    // exact_sum() adds the messages in fp64, reduce() computes the result of both phases for
    // elements first .. first + y.size() - 1.
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
    void add_up(std::span<float> sum, const FloatBuffers& buffers, std::size_t at) const;
    void sum_of(const Shard& shard, std::size_t first, std::size_t count);
    void append_sum(std::size_t s, const Shard& shard);

    const PlainPhases& phases_;
    TrainingStep step_;  // with workers = 1, because each row is encoded by itself
    std::span<const std::span<const float>> gradients_;
    FloatBuffers &buffers_, &ahead_;
    Wires phase1_;
    std::optional<Wires> phase2_;       // not set if both phases use the wires of phase1_
    std::vector<std::size_t> wire_of_;  // index in phase1_.wires of each worker's wire
    std::optional<int> scale_exponent_;
    Buffer<float> sum_;           // sum of the current shard, before phase 2
    Buffer<double> done_;         // decoded sums, up to the end of the last shard that is computed
    std::size_t done_first_ = 0,  // index in the tensor of the first element of done_
        next_ = 0;                // number of the next shard
};

}  // namespace apscope::detail
