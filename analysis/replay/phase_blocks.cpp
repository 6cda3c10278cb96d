#include "analysis/replay/phase_blocks.h"

#include <algorithm>

#include "core/fixed_shape_sum.h"

namespace apscope::detail {

namespace {

std::vector<RowSums> reduced_rows(const SchemeParts& scheme) {
    std::vector<RowSums> rows(2);
    rows[0].topology = "exact";
    rows[0].exact = true;
    rows[1].topology = scheme.topology;
    for (RowSums& row : rows) row.moments = scheme.draws() ? Moments::none : Moments::deterministic;
    return rows;
}

class PhaseBlocks final : private BlockSource {
public:
    PhaseBlocks(const SchemeParts& scheme, const TrainingStep& step, const ItemContext& item,
                BlockBuffers& buffers)
        : scheme_(scheme), phases_(*scheme.float_phases), item_(item), key_(step.key),
          buffers_(buffers), account_(item, buffers.account, reduced_rows(scheme)),
          exchange_(phases_, step, item.gradients, buffers.exchange, buffers.ahead) {
        for (std::size_t i = 0; i < exchange_.wires(); ++i)
            senders_.emplace_back(encoder().grid, exchange_.wire(i), false, false);
        account_.splits = true;
        account_.wire().float_grid = true;
        account_.wire().moments = senders_[0].moments();
    }

    void add(std::size_t first, std::span<const double> reference) {
        if (exchange_.skipped()) return account_.skip(first, reference);
        first_ = first;
        account_.add(*this, first, reference);
    }
    std::vector<ResultRow> rows() const {
        return account_.rows({scheme_.transport, payload_bits(encoder().grid, item_.elements()),
                              encoder().side_bits, encoder().side_bits, exchange_.scale_exponent(),
                              exchange_.skipped()});
    }

private:
    const FloatEncoder& encoder() const { return phases_.leaf->parts.float_encoder.value(); }

    void send(std::size_t w, ItemAccount& account) override {
        const std::size_t i = exchange_.wire_of(w);
        senders_[i].send(exchange_.wire(i), w, item_.block(w, first_, account.count()), first_,
                         key_, buffers_, account);
    }
    void read_sent(std::size_t, std::span<double>) override {}  // no draws are taken
    void reduce(std::size_t r, std::span<double> y, HopMoments*) override {
        if (r == 0) exchange_.exact_sum(y);
        else exchange_.reduce(first_, y);
        simd::run<DivideRow>(y.data(), item_.divisor(), y.size());
    }

    const SchemeParts& scheme_;
    const FloatPhases& phases_;
    ItemContext item_;
    PhiloxKey key_;
    BlockBuffers& buffers_;
    ItemAccount account_;
    PhaseExchange exchange_;
    std::vector<FloatSender> senders_;  // one a wire of phase 1
    std::size_t first_ = 0;             // of the block at hand
};

}  // namespace

bool serves_phases(const SchemeParts& scheme, const ItemContext& item) {
    return scheme.float_phases && item.reduces && (item.draws == 1 || !scheme.draws());
}

std::vector<ResultRow> phase_rows(const SchemeParts& scheme, const TrainingStep& step,
                                  const ItemContext& item, BlockBuffers& buffers) {
    PhaseBlocks blocks(scheme, step, item, buffers);
    Buffer<double> reference;
    for (std::size_t first = 0; first < item.elements(); first += sum_block) {
        item.add_up(first, std::min(sum_block, item.elements() - first), reference);
        blocks.add(first, reference);
    }
    return blocks.rows();
}

}  // namespace apscope::detail
