#include "analysis/replay/block_rows.h"

#include "analysis/replay/exchange_sums.h"
#include "emulation/schemes/block_exchange.h"

namespace apscope::detail {

std::vector<ResultRow> block_rows(const TensorScheme& scheme, const TrainingStep& step,
                                  State& state, std::span<const std::span<const float>> gradients,
                                  const ExchangeContext& context,
                                  const std::function<PhiloxKey(int draw)>& key) {
    State before = context.draws > 1 && scheme.draws ? state : State{};
    // work(first, exchange) on every piece; a tensor without elements has one, too.
    const auto for_pieces = [&](BlockExchange& x, auto&& work) {
        std::size_t first = 0;
        do {
            x.read(first);
            work(first);
            first += x.piece();
        } while (first < gradients[0].size());
    };
    ExchangeSums sums(scheme, gradients, context);
    BlockExchange x(scheme, step, state, gradients, context.topologies);
    for_pieces(x, [&](std::size_t first) { sums.add(x.send(step.key, true), first); });
    x.end();
    std::vector<ResultRow> rows = sums.rows(x.scale_exponent(), x.skipped());

    ExchangeSamples samples(scheme, rows, gradients, context);
    if (!samples.wanted()) return rows;
    BlockExchange again(scheme, step, before, gradients, context.topologies);
    for_pieces(again, [&](std::size_t first) {
        for (int d = 0; d < context.draws; ++d)
            samples.take(static_cast<std::size_t>(d), again.send(key(d), false));
        samples.add(first);
    });
    samples.fill(rows);
    return rows;
}

}  // namespace apscope::detail
