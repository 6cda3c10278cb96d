// FloatBlocks: the BlockSource of a scheme that streams (emulation/schemes/float_exchange.h), on
// one item.
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
    std::optional<RowTask> task() override;  // only with plain topologies

    // The facts about the messages of `scheme`, which is this scheme or another with the same sums.
    SentItem sent(const SchemeParts& scheme, const Decision& decision) const;

private:
    const FloatEncoder& encoder_;
    Decision decision_;
    ItemContext item_;
    std::vector<Topology> topologies_;  // one per reduced row
    bool draws_;                        // messages are rounded stochastically
    BlockBuffers& buffers_;
    FloatExchange exchange_;
    bool hops_draw_;  // some topology rounds its sums stochastically
    FloatSender sender_;
    PhiloxKey first_key_,  // key of draw 0
        key_;              // key of the current draw
};

}  // namespace apscope::detail
