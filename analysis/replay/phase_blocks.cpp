#include "analysis/replay/phase_blocks.h"

#include <memory>
#include <utility>

namespace apscope::detail {

namespace {

SourceFacts facts_of(const SchemeParts& scheme) {
    SourceFacts facts;
    facts.splits = true;
    facts.wire.float_grid = true;
    facts.reduced.resize(2);
    facts.reduced[0].topology = "exact";
    facts.reduced[0].exact = true;
    facts.reduced[1].topology = scheme.topology;
    for (RowFacts& row : facts.reduced)
        row.moments = scheme.draws() ? Moments::none : Moments::deterministic;
    return facts;
}

class PhaseBlocks final : public BlockSource {
public:
    PhaseBlocks(const SchemeParts& scheme, const TrainingStep& step, const ItemContext& item,
                BlockBuffers& buffers)
        : BlockSource(facts_of(scheme)), scheme_(scheme), phases_(*scheme.encoding.float_phases),
          item_(item), key_(step.key), buffers_(buffers),
          exchange_(phases_, step, item.gradients, buffers.exchange, buffers.ahead) {
        for (std::size_t i = 0; i < exchange_.wires(); ++i)
            senders_.emplace_back(encoder().grid, exchange_.wire(i), false, false);
        facts_.wire.moments = senders_[0].moments();
        facts_.skipped = exchange_.skipped();
    }

    SentBlock send(std::size_t w, std::size_t first, std::size_t count) override {
        const std::size_t i = exchange_.wire_of(w);
        return senders_[i].send(exchange_.wire(i), w, item_.block(w, first, count), first, key_,
                                buffers_);
    }
    void read_sent(std::size_t, std::size_t, std::span<double>) override {}  // no draws are taken
    void reduce(std::size_t r, std::size_t first, std::span<double> y, HopMoments*) override {
        if (r == 0) exchange_.exact_sum(y);
        else exchange_.reduce(first, y);
        simd::run<DivideRow>(y.data(), item_.divisor(), y.size());
    }
    SentItem sent() const {
        return {scheme_.transport,          payload_bits(encoder().grid, item_.elements()),
                encoder().side_bits,        encoder().side_bits,
                exchange_.scale_exponent(), exchange_.skipped()};
    }

private:
    const FloatEncoder& encoder() const {
        return phases_.phase1->parts.encoding.float_encoder.value();
    }

    const SchemeParts& scheme_;
    const FloatPhases& phases_;
    ItemContext item_;
    PhiloxKey key_;
    BlockBuffers& buffers_;
    PhaseExchange exchange_;
    std::vector<FloatSender> senders_;  // one per wire of phase 1
};

}  // namespace

bool supports_phases(const SchemeParts& scheme, const ItemContext& item) {
    return scheme.encoding.float_phases && item.reduces && (item.draws == 1 || !scheme.draws());
}

std::vector<ResultRow> phase_rows(const SchemeParts& scheme, const TrainingStep& step,
                                  const ItemContext& item, BlockBuffers& buffers) {
    auto source = std::make_unique<PhaseBlocks>(scheme, step, item, buffers);
    const SentItem sent = source->sent();
    ItemAccount account(item, buffers.account, std::move(source));
    account.add(0, item.elements());
    return account.rows(sent);
}

}  // namespace apscope::detail
