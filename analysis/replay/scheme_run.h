// SchemeRun: what a scheme that scales and rounds to a float grid
// (emulation/schemes/float_exchange.h) does to one item, a (step, tensor) pair, compared block by
// block with the item's gradients and their sum.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "analysis/replay/row_builder.h"
#include "analysis/replay/row_device.h"
#include "analysis/statistics/block_account.h"
#include "analysis/statistics/nearest_statistics.h"
#include "emulation/machine/buffers.h"
#include "emulation/schemes/float_exchange.h"

namespace apscope::detail {

// What all schemes share about an item.
struct ItemContext {
    std::string_view tensor;
    std::int64_t step_number = 0;
    std::size_t elements = 0;
    int workers = 0;
    bool divide = false;      // the reference is divided by the number of workers
    bool reduces = true;      // false where the trace holds reduced gradients: wire rows only
    std::uint64_t seed = 0;
    int draws = 1;
    std::span<const std::span<const float>> gradients;  // one row a worker
    const BatchNoise* noise = nullptr;  // of these gradients, where the rows are to have it

    // That of elements first .. first + count - 1, which begin a block; empty without.
    std::span<const double> noise_of(std::size_t first, std::size_t count) const {
        return detail::noise_of(noise, first, count);
    }
};

// What a block is worked on in. All schemes and items of a thread share it, one after another:
// nothing here outlives a call of SchemeRun::block().
struct BlockBuffers {
    explicit BlockBuffers(int workers) : exchange(workers) {}

    FloatBuffers exchange;
    Buffer<double> bias, variance;  // of one worker's roundings, scaled back
    Buffer<double> wire_bias, wire_variance;  // their sums over the workers
    Buffer<double> x, y, hop_bias, hop_variance;
    Buffer<double> exact;  // the exact row's result
    BlockAccount account;
};

class SchemeRun {
public:
    SchemeRun(const FloatScheme& scheme, const Decision& decision,
              std::span<const Topology> topologies, const ItemContext& item, BlockBuffers& buffers);

    // Elements first .. first + reference.size() - 1; blocks come in order. reference: R.
    void block(std::size_t first, std::span<const double> reference);
    // The same work as a device's task (scheme_task.cpp), instead of block(): for formats of fp32
    // numbers.
    bool serves_device() const;
    RowTask task() const;
    void take(RowTotals totals);
    // The rows of this item: wire, exact, then the topologies. Of the scheme, or of another that
    // comes to the same sums.
    std::vector<ResultRow> rows(const FloatScheme& scheme, const Decision& decision) const;

private:
    // One reduced row in the making.
    struct Reduced {
        Topology topology;
        bool exact = false;  // decoded values are added in fp64, whatever the topology
        bool sampled = false;  // stochastic wire, deterministic hops: needs draws
        RowSums sums;
    };

    std::vector<Reduced> reduced_rows(std::span<const Topology> topologies);
    PhiloxKey key(std::size_t draw) const {
        return replay_key(item_.seed, item_.tensor, item_.step_number,
                          static_cast<std::uint32_t>(draw));
    }
    std::span<const float> gradients(std::size_t w, std::size_t first, std::size_t count) const {
        return item_.gradients[w].subspan(first, count);
    }
    // Encodes and adds at once, into the exchange's narrow[w] and wire_[w]; false where that way
    // does not serve.
    bool encode_and_add(std::size_t w, std::size_t first, std::size_t count);
    void add_wire(std::size_t w, std::size_t first, std::size_t count);
    void split_sent(ErrorStatistics& sent, std::size_t w, std::size_t first);
    void moments_of(std::size_t w, std::size_t first, std::size_t count);
    void add_skipped(std::size_t first, std::span<const double> reference);
    void add_reduced(Reduced& reduced, std::size_t first, std::span<const double> reference);
    void sample(std::size_t first, std::span<const double> reference);
    double divisor() const { return item_.divide ? item_.workers : 1.0; }

    const FloatScheme& scheme_;
    Decision decision_;
    ItemContext item_;
    bool stochastic_;  // the wire draws
    bool hops_draw_ = false;  // some topology's hops draw
    std::vector<Reduced> reduced_;
    BlockBuffers& buffers_;
    FloatExchange exchange_;
    FloatScale scale_;  // for the wire's limits and ulps
    std::optional<NearestCast> nearest_;  // the cast with its statistics, where it is fp32's
    float smallest_normal_ = 0.0f, largest_ = 0.0f;  // in x's units
    std::vector<ErrorStatistics> wire_;  // one a worker
    ReferenceSums known_;  // of the block at hand
    bool wire_moments_defined_ = true;
};

}  // namespace apscope::detail
