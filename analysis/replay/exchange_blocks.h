// ExchangeBlocks: the BlockSource of an exchange of any scheme (emulation/schemes/exchange_run.h)
// on one item. It takes an exchange of the whole tensor, or the exchanges of its pieces one after
// another; the results are the same bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/replay/item_account.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

class ExchangeBlocks final : public BlockSource {
public:
    // statistics: of every row, only for task().
    ExchangeBlocks(const SchemeParts& scheme, const ItemContext& item,
                   std::span<const AgreedStatistics> statistics = {});

    // Makes `e` the current exchange and collects facts about the tensor's result rows from it. The
    // rows of `e` begin at element `first` of the tensor, which is the start of a block. Calls must
    // be in order of `first`.
    void look_at(const Exchange& e, std::size_t first);
    // Makes another draw of an exchange the current exchange, without collecting facts.
    void draw_at(const Exchange& e, std::size_t first);
    std::size_t size() const { return e_->intended.at(0).size(); }
    // Completes the facts, after look_at() of every piece.
    SentItem end(std::optional<int> scale_exponent, bool skipped);
    // True if moments without a closed form are to be estimated from K draws (docs/definitions.md,
    // section 5).
    bool may_draw() const;

    SentBlock send(std::size_t w, std::size_t first, std::size_t count) override;
    void read_sent(std::size_t w, std::size_t first, std::span<double> y) override;
    void reduce(std::size_t r, std::size_t first, std::span<double> y, HopMoments* hops) override;
    double max_ulp(std::size_t first, std::span<const double> reference,
                   std::span<const double> y) const override;
    // Collects the facts, as look_at() does, if there is a task (exchange_task.h).
    std::optional<RowTask> task() override;
    void take(const RowTotals& totals) override {
        blocks_ = totals.blocks;
        if (totals.least_exponent == totals.largest_exponent && names_exponent())
            scale_exponent_ = totals.least_exponent;
    }
    SentItem end() { return end(scale_exponent_, false); }  // after take()

private:
    // True if all workers agree on the scales of units.
    bool names_exponent() const { return scheme_.encoding.units && !scheme_.encoding.plain_phases; }
    void add_sum_moments(std::size_t first, HopMoments& moments);

    const SchemeParts& scheme_;
    ItemContext item_;
    std::span<const AgreedStatistics> statistics_;
    // Limits of the float encoder's grid; none without a float encoder.
    std::optional<GridLimits> limits_;
    bool known_ = true,       // the moments of all messages so far are known
        certain_ = true,      // no message so far is random
        float_grid_ = true,   // all messages so far are on a float grid
        in_blocks_ = true,    // all messages so far have block scales
        has_scales_ = false;  // some exchange had scales
    std::vector<BlockUse> blocks_;
    std::optional<int> scale_exponent_;  // the device's
    std::vector<std::uint64_t> payload_bits_, side_bits_, tensor_bits_;
    // The current exchange, and the tensor's element at which it begins.
    const Exchange* e_ = nullptr;
    std::size_t first_ = 0;
    bool sum_moments_ = false;  // the exchange has the moments of the reduction's own draws
    Row truth_, bias_, nothing_;
    Row marked_;  // 1 for an element that saturated
};

// The column `topology` of the reduced rows: exact, then the scheme's own reduction or, if it
// crosses with topologies, the item's.
std::vector<std::string> topology_names(const SchemeParts& scheme, const ItemContext& item);

}  // namespace apscope::detail
