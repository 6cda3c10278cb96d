// What the rows of an exchange (emulation/schemes/tensor_scheme.h) are made of, summed block by
// block: for row_builder.h. Exchanges of whole tensors and those that come in pieces go through
// here, to the same bits.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/replay/row_builder.h"
#include "analysis/replay/tensor_rows.h"
#include "analysis/statistics/block_account.h"
#include "emulation/schemes/tensor_scheme.h"

namespace apscope::detail {

class ExchangeSums {
public:
    // gradients: as recorded, special values included.
    ExchangeSums(const TensorScheme& scheme, std::span<const std::span<const float>> gradients,
                 const ExchangeContext& context);

    // An exchange whose rows begin at element `first` of the tensor, which is the start of a block:
    // all of it. In order.
    void add(const Exchange& e, std::size_t first);
    std::vector<ResultRow> rows(std::optional<int> scale_exponent, bool skipped) const;

private:
    struct Reduced {
        std::string topology;
        bool adds_moments = false;  // a sum of values that were drawn independently
        ErrorStatistics statistics, own;
    };
    void count(const Exchange& e);
    void add_block(const Exchange& e, std::size_t at, std::size_t first, std::size_t count);
    void add_wire(const Exchange& e, std::size_t w, std::size_t at, std::size_t first,
                  std::size_t count);
    void add_reduced(const Exchange& e, std::size_t at, std::size_t count);

    const TensorScheme& scheme_;
    std::span<const std::span<const float>> gradients_;
    const ExchangeContext& context_;
    double divisor_;
    bool known_ = true, certain_, float_grid_ = true, in_blocks_ = true, splits_ = true,
         has_scales_ = false;  // of all messages
    std::vector<ErrorStatistics> wire_, own_;                               // one a worker
    std::vector<GridUse> use_;
    std::vector<BlockUse> blocks_;
    std::vector<std::uint64_t> payload_bits_, side_bits_;
    std::vector<Reduced> reduced_;
    // Of the block at hand.
    Row truth_, bias_, reference_, own_reference_, sum_bias_, sum_variance_, y_;
    Row exact_;  // the exact row's result
    BlockAccount account_;
    Row marked_;                  // 1 an element that saturated
};

// K draws of the rows that have no closed form (docs/definitions.md, section 5), block by block.
class ExchangeSamples {
public:
    // Of those of `rows`, the exchange's first draw, that lack it.
    ExchangeSamples(const TensorScheme& scheme, std::span<const ResultRow> rows,
                    std::span<const std::span<const float>> gradients,
                    const ExchangeContext& context);

    bool wanted() const { return wanted_; }
    // Draw d of an exchange, of which the same elements of all K draws come one after another; then
    // add() them.
    void take(std::size_t d, const Exchange& e);
    void add(std::size_t first);
    void fill(std::span<ResultRow> rows) const;

private:
    std::span<const std::span<const float>> gradients_;
    double divisor_;
    bool wanted_ = false;
    std::vector<char> lacks_;                // a row each
    std::vector<DrawSamples> wire_, reduced_;  // a worker each, a row each
    std::vector<Rows> sent_, sums_;          // per draw
};

// What column `topology` of the reduced rows says: exact, then the scheme's own or those that it
// crosses with.
std::vector<std::string> topology_names(const TensorScheme& scheme, const ExchangeContext& context);

}  // namespace apscope::detail
