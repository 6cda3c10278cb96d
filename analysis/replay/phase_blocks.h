// PhaseBlocks: the BlockSource of a two-phase reduction on float grids
// (emulation/schemes/float_phases.h), on one item.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "analysis/replay/float_sender.h"
#include "emulation/schemes/float_phases.h"

namespace apscope::detail {

// True if the scheme is such a reduction and all its columns can be computed without further draws.
bool supports_phases(const SchemeParts& scheme, const ItemContext& item);

class PhaseBlocks final : public BlockSource {
public:
    // Only for a scheme and item for which supports_phases() is true. statistics: of every row.
    PhaseBlocks(const SchemeParts& scheme, const TrainingStep& step, const ItemContext& item,
                std::span<const AgreedStatistics> statistics, BlockBuffers& buffers);

    SentBlock send(std::size_t w, std::size_t first, std::size_t count) override;
    void read_sent(std::size_t, std::size_t, std::span<double>) override {}  // no draws are taken
    void reduce(std::size_t r, std::size_t first, std::span<double> y, HopMoments* hops) override;
    std::optional<RowTask> task() override;
    SentItem sent() const;

private:
    const FloatGrid& grid() const {
        return phases_.phase1->parts.encoding.float_encoder.value().grid;
    }

    const SchemeParts& scheme_;
    const PlainPhases& phases_;
    ItemContext item_;
    PhiloxKey key_;
    BlockBuffers& buffers_;
    PhaseExchange exchange_;
    std::vector<FloatSender> senders_;  // one per wire of phase 1
};

}  // namespace apscope::detail
