// FloatBlocks: the blocks of a scheme that streams (emulation/schemes/float_exchange.h), on one
// item. Where fp32 holds what is sent, it is rounded and counted in one pass
// (nearest_statistics.h). A device does all of it at once, as a task.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "analysis/replay/item_account.h"
#include "analysis/statistics/nearest_statistics.h"
#include "emulation/schemes/float_exchange.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// What a block is worked on in. All schemes and items of a thread share it, one after another:
// nothing here outlives a call of FloatBlocks::add().
struct BlockBuffers {
    explicit BlockBuffers(int workers) : exchange(workers) {}

    FloatBuffers exchange;
    Buffer<double> x, bias, variance;  // of one worker; moments of its roundings, scaled back
    AccountBuffers account;
};

class FloatBlocks final : private BlockSource {
public:
    FloatBlocks(const FloatEncoder& encoder, const Decision& decision, const ItemContext& item,
                BlockBuffers& buffers);

    // Elements first .. first + reference.size() - 1; blocks come in order. reference: R.
    void add(std::size_t first, std::span<const double> reference);
    // The same work as a device's task (scheme_task.cpp), instead of add(): for formats of fp32
    // numbers and plain topologies.
    bool serves_device() const;
    RowTask task() const;
    void take(RowTotals totals) { account_.take(std::move(totals)); }
    // Of the scheme, or of another that comes to the same sums.
    std::vector<ResultRow> rows(const SchemeParts& scheme, const Decision& decision) const;

private:
    void send(std::size_t w, ItemAccount& account) override;
    void read_sent(std::size_t w, std::span<double> y) override;
    void reduce(std::size_t r, std::span<double> y, HopMoments* hops) override;
    bool round_and_count(std::size_t w, std::span<const float> x, ErrorStatistics& sent);
    void decode(std::span<double> bias, std::span<double> variance) const;
    bool samples() const;  // whether some row takes K draws
    // Whether no draw could overflow.
    bool find_moments(std::size_t w, std::span<const float> x);
    template <class Real, class Saturated>
    void add_sent(std::size_t w, ErrorStatistics& sent, const Real* x, const Real* y,
                  const Saturated& saturated);

    const FloatEncoder& encoder_;
    Decision decision_;
    ItemContext item_;
    std::vector<Topology> topologies_;  // a reduced row each
    bool draws_, hops_draw_;  // the wire; some topology's hops
    bool finds_moments_;  // in closed form; of two draws in a row they are not known
    BlockBuffers& buffers_;
    ItemAccount account_;
    FloatExchange exchange_;
    FloatScale scale_;  // for the wire's limits and ulps
    std::optional<NearestCast> nearest_;  // the cast with its statistics, where it is fp32's
    float smallest_normal_ = 0.0f, largest_ = 0.0f;  // in x's units
    std::size_t first_ = 0;  // of the block at hand
    PhiloxKey key_;  // of the draw at hand
};

}  // namespace apscope::detail
