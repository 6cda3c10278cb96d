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

class ExchangeBlocks final : private BlockSource {
public:
    ExchangeBlocks(const SchemeParts& scheme, const ItemContext& item, AccountBuffers& buffers);

    // An exchange whose rows begin at element `first` of the tensor, which is the start of a block:
    // all of it. In order.
    void add(const Exchange& e, std::size_t first);
    // Once all are added.
    std::vector<ResultRow> rows(std::optional<int> scale_exponent, bool skipped);

    // K draws of the rows that have no closed form (docs/definitions.md, section 5): whether there
    // are any; draw d of an exchange, of which the same elements of all K draws come one after
    // another; then add_draws().
    bool wants_draws(std::span<const ResultRow> rows);
    void take_draw(std::size_t d, const Exchange& e);
    void add_draws(std::size_t first) { account_.add_draws(first); }

private:
    void send(std::size_t w, ItemAccount& account) override;
    void read_sent(std::size_t w, std::span<double> y) override;
    void reduce(std::size_t r, std::span<double> y, HopMoments* hops) override;
    void look_at(const Exchange& e);
    void add_sum_moments(HopMoments& moments);
    std::size_t size() const { return e_->intended.at(0).size(); }

    const SchemeParts& scheme_;
    ItemContext item_;
    std::optional<GridLimits> limits_;  // of the float encoder's grid
    ItemAccount account_;
    bool known_ = true, certain_ = true, float_grid_ = true, in_blocks_ = true,
         has_scales_ = false;  // of all messages
    std::vector<BlockUse> blocks_;
    std::vector<std::uint64_t> payload_bits_, side_bits_, tensor_bits_;
    // The current piece, and its block.
    const Exchange* e_ = nullptr;
    std::size_t first_ = 0, at_ = 0;
    bool sum_moments_ = false;  // it has those of what the sum draws
    bool drawing_ = false;      // it is compared later
    Row truth_, bias_, nothing_;
    Row marked_;  // 1 an element that saturated
};

// The column `topology` of the reduced rows: exact, then the scheme's own or those that it crosses
// with.
std::vector<std::string> topology_names(const SchemeParts& scheme, const ItemContext& item);

}  // namespace apscope::detail
