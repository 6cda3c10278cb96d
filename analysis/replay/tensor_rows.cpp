#include "analysis/replay/tensor_rows.h"

#include "analysis/replay/exchange_sums.h"
#include "emulation/schemes/exchange_run.h"

namespace apscope::detail {

std::vector<ResultRow> tensor_rows(const TensorScheme& scheme, const TrainingStep& step,
                                   State& state, std::span<const std::span<const float>> gradients,
                                   const ExchangeContext& context,
                                   const std::function<PhiloxKey(int draw)>& key) {
    const State before = context.draws > 1 && scheme.draws ? state : State{};
    // work(first) on every piece; a tensor without elements has one, too.
    const auto for_pieces = [&](ExchangeRun& run, auto&& work) {
        std::size_t first = 0;
        do {
            run.read(first);
            work(first);
            first += run.piece();
        } while (first < gradients[0].size());
    };
    ExchangeSums sums(scheme, gradients, context);
    ExchangeRun run(scheme, step, state, gradients, context.topologies);
    for_pieces(run, [&](std::size_t first) { sums.add(run.send(step.key, true), first); });
    run.end();
    std::vector<ResultRow> rows = sums.rows(run.scale_exponent(), run.skipped());

    ExchangeSamples samples(scheme, rows, gradients, context);
    if (!samples.wanted()) return rows;
    const auto draws = static_cast<std::size_t>(context.draws);
    if (scheme.parts.run == whole_row) {  // whose parts may all draw
        samples.take(0, run.at_hand());
        for (std::size_t d = 1; d < draws; ++d) {
            TrainingStep drawn = step;
            drawn.key = key(static_cast<int>(d));
            State copy = before;
            ExchangeRun again(scheme, drawn, copy, gradients, context.topologies);
            again.read(0);
            samples.take(d, again.send(drawn.key, false));
        }
        samples.add(0);
    } else {
        State copy = before;
        ExchangeRun again(scheme, step, copy, gradients, context.topologies);
        for_pieces(again, [&](std::size_t first) {
            for (std::size_t d = 0; d < draws; ++d)
                samples.take(d, again.send(key(static_cast<int>(d)), false));
            samples.add(first);
        });
    }
    samples.fill(rows);
    return rows;
}

std::vector<ResultRow> unmeasurable_rows(const TensorScheme& scheme, std::size_t elements,
                                         int workers, const std::string& missing,
                                         const ExchangeContext& context) {
    std::vector<std::string> names{""};
    if (context.reduces) {
        for (std::string& name : topology_names(scheme, context)) names.push_back(std::move(name));
    }
    std::vector<ResultRow> rows;
    for (const std::string& name : names) {
        ResultRow& row = rows.emplace_back();
        row.wire = name.empty();
        row.topology = name;
        row.count = static_cast<std::int64_t>(elements *
                                              static_cast<std::size_t>(name.empty() ? workers : 1));
        row.note = std::string(not_measurable) + missing;
    }
    return rows;
}

}  // namespace apscope::detail
