// FloatBlocks: the blocks of a scheme that streams (emulation/schemes/float_exchange.h), on one
// item. A device does all of it at once, as a task.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/replay/float_sender.h"
#include "emulation/schemes/float_exchange.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

class FloatBlocks final : public BlockSource {
public:
    FloatBlocks(const FloatEncoder& encoder, const Decision& decision, const ItemContext& item,
                BlockBuffers& buffers);

    SentBlock send(std::size_t w, std::size_t first, std::size_t count) override;
    void draw(std::size_t d, std::size_t first, std::size_t count) override;
    void read_sent(std::size_t w, std::size_t first, std::span<double> y) override;
    void reduce(std::size_t r, std::size_t first, std::span<double> y, HopMoments* hops) override;

    // The same work as a device's task: for formats of fp32 numbers and plain topologies.
    bool serves_device() const;
    RowTask task() const;
    // Of the messages of the scheme, or of another that comes to the same sums.
    SentItem sent(const SchemeParts& scheme, const Decision& decision) const;

private:
    const FloatEncoder& encoder_;
    Decision decision_;
    ItemContext item_;
    std::vector<Topology> topologies_;  // a reduced row each
    bool draws_;                        // the wire
    BlockBuffers& buffers_;
    FloatExchange exchange_;
    bool hops_draw_;  // some topology's
    FloatSender sender_;
    PhiloxKey first_key_, key_;  // of draw 0, of the draw at hand
};

}  // namespace apscope::detail
