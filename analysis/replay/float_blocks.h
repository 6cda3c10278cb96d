// FloatBlocks: the blocks of a scheme that streams (emulation/schemes/float_exchange.h), on one
// item. A device does all of it at once, as a task.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "analysis/replay/float_sender.h"
#include "emulation/schemes/float_exchange.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

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
    bool samples() const;  // whether some row takes K draws

    const FloatEncoder& encoder_;
    Decision decision_;
    ItemContext item_;
    std::vector<Topology> topologies_;  // a reduced row each
    bool draws_;                        // the wire
    BlockBuffers& buffers_;
    ItemAccount account_;
    FloatExchange exchange_;
    bool hops_draw_;  // some topology's
    FloatSender sender_;
    std::size_t first_ = 0;  // of the block at hand
    PhiloxKey key_;          // of the draw at hand
};

}  // namespace apscope::detail
