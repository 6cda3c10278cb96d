// ExchangeBlocks: the blocks of an exchange of any scheme (emulation/schemes/exchange_run.h),
// on one item. Exchanges of whole tensors and those that come in pieces go through here, to the
// same bits.
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
    ExchangeBlocks(const SchemeParts& scheme, const ItemContext& item);

    // Turns to an exchange whose rows begin at element `first` of the tensor, which is the start of
    // a block, and learns from it what the rows of the tensor hold. In order.
    void look_at(const Exchange& e, std::size_t first);
    // Turns to a draw of an exchange, of which nothing is learned.
    void draw_at(const Exchange& e, std::size_t first);
    std::size_t size() const { return e_->intended.at(0).size(); }
    // Once all were seen: completes the facts.
    SentItem end(std::optional<int> scale_exponent, bool skipped);
    // Whether rows without a closed form are to be estimated from K draws (docs/definitions.md,
    // section 5).
    bool may_draw() const;

    SentBlock send(std::size_t w, std::size_t first, std::size_t count) override;
    void read_sent(std::size_t w, std::size_t first, std::span<double> y) override;
    void reduce(std::size_t r, std::size_t first, std::span<double> y, HopMoments* hops) override;
    double max_ulp(std::size_t first, std::span<const double> reference,
                   std::span<const double> y) const override;

private:
    void add_sum_moments(std::size_t first, HopMoments& moments);

    const SchemeParts& scheme_;
    ItemContext item_;
    std::optional<GridLimits> limits_;  // of the float encoder's grid
    bool known_ = true, certain_ = true, float_grid_ = true, in_blocks_ = true,
         has_scales_ = false;  // of all messages
    std::vector<BlockUse> blocks_;
    std::vector<std::uint64_t> payload_bits_, side_bits_, tensor_bits_;
    // The current piece, and where it begins.
    const Exchange* e_ = nullptr;
    std::size_t first_ = 0;
    bool sum_moments_ = false;  // it has those of what the sum draws
    Row truth_, bias_, nothing_;
    Row marked_;  // 1 an element that saturated
};

// The column `topology` of the reduced rows: exact, then the scheme's own or those that it crosses
// with.
std::vector<std::string> topology_names(const SchemeParts& scheme, const ItemContext& item);

}  // namespace apscope::detail
