#include "analysis/replay/tensor_rows.h"

#include <memory>
#include <utility>

#include "analysis/replay/exchange_blocks.h"
#include "analysis/replay/item_rows.h"
#include "emulation/schemes/exchange_run.h"

namespace apscope::detail {

std::vector<ResultRow> tensor_rows(const SchemeParts& scheme, const TrainingStep& step,
                                   State& state, const ItemContext& item, BlockBuffers& buffers) {
    if (supports_phases(scheme, item)) {
        const Alone phases{&scheme, step, {}, item.last_alone};
        return std::move(streamed_rows({}, {&phases, 1}, item, buffers)[0]);
    }
    auto source = std::make_unique<ExchangeBlocks>(scheme, item);
    ExchangeBlocks& blocks = *source;
    ItemAccount account(item, buffers.account, std::move(source));
    const State before = blocks.may_draw() ? state : State{};
    // Calls work(first) for every piece; a tensor without elements has one empty piece.
    const auto for_pieces = [&](ExchangeRun& run, auto&& work) {
        std::size_t first = 0;
        do {
            run.read(first);
            work(first);
            first += run.piece();
        } while (first < item.elements());
    };
    const auto take_draw = [&](std::size_t d, const Exchange& e, std::size_t first) {
        blocks.draw_at(e, first);
        account.take_draw(d, first, blocks.size());
    };
    const bool whole = scheme.run == whole_row, at_once = whole && blocks.may_draw();
    ExchangeRun run(scheme, step, state, item.gradients, item.topologies, at_once);
    for_pieces(run, [&](std::size_t first) {
        blocks.look_at(run.send(step.key, true), first);
        account.add(first, blocks.size());
    });
    run.end();
    const SentItem sent = blocks.end(run.scale_exponent(), run.skipped());
    std::vector<ResultRow> rows = account.rows(sent);

    if (!blocks.may_draw() || !account.sample_missing(rows)) return rows;
    const auto draws = static_cast<std::size_t>(item.draws);
    TrainingStep drawn = step;
    drawn.describes = false;
    // If whole rows are exchanged, every part of the exchange may draw, so each draw repeats all of
    // it. Otherwise each draw repeats only send().
    if (whole) {
        take_draw(0, run.at_hand(), 0);
        for (std::size_t d = 1; d < draws; ++d) {
            drawn.key = item.key(d);
            State copy = before;
            ExchangeRun again(scheme, drawn, copy, item.gradients, item.topologies, at_once);
            again.read(0);
            take_draw(d, again.send(drawn.key, false), 0);
        }
        account.add_draws(0);
    } else {
        State copy = before;
        ExchangeRun again(scheme, drawn, copy, item.gradients, item.topologies);
        for_pieces(again, [&](std::size_t first) {
            for (std::size_t d = 0; d < draws; ++d)
                take_draw(d, again.send(item.key(d), false), first);
            account.add_draws(first);
        });
    }
    return account.rows(sent);
}

std::string missing_at(const SchemeParts& scheme, const Trace& trace, std::size_t step) {
    std::string missing;
    const StepInfo& info = trace.manifest().steps[step];
    for (const std::string& what : scheme.needs) {
        const bool there = what == "loss"            ? info.loss.has_value()
                           : what == "learning_rate" ? info.learning_rate.has_value()
                                                     : trace.has(step, parse_kind(what));
        if (!there) missing += (missing.empty() ? "" : " and ") + what;
    }
    return missing;
}

std::vector<ResultRow> unmeasurable_rows(const SchemeParts& scheme, const std::string& missing,
                                         const ItemContext& item) {
    std::vector<std::string> names{""};
    if (item.reduces) {
        for (std::string& name : topology_names(scheme, item)) names.push_back(std::move(name));
    }
    if (item.last_alone && names.size() > 1) names.erase(names.begin() + 1, names.end() - 1);
    std::vector<ResultRow> rows;
    for (const std::string& name : names) {
        ResultRow& row = rows.emplace_back();
        row.wire = name.empty();
        row.topology = item.last_alone ? names.back() : name;
        const auto rows_of = static_cast<std::size_t>(name.empty() ? item.workers() : 1);
        row.count = static_cast<std::int64_t>(item.elements() * rows_of);
        row.note = std::string(not_measurable) + missing;
    }
    return rows;
}

}  // namespace apscope::detail
