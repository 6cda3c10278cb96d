#include "analysis/replay/item_rows.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "analysis/replay/exchange_task.h"
#include "core/fixed_shape_sum.h"

namespace apscope::detail {

namespace {

// The computation of one scheme on an item. Schemes with the same sums share one of FloatBlocks.
template <class Blocks>
struct Run {
    Run(const ItemContext& item, BlockBuffers& buffers, std::unique_ptr<Blocks> source)
        : blocks(*source), account(item, buffers.account, std::move(source)) {}

    const Blocks& blocks;
    ItemAccount account;
};

// The computation of a scheme of Alone on an item.
struct RunAlone {
    RunAlone(const Alone& scheme, const ItemContext& item,
             std::span<const AgreedStatistics> statistics, BlockBuffers& buffers)
        : account(item, buffers.account, source(scheme, item, statistics, buffers)) {}

    SentItem sent() const { return blocks ? blocks->end() : phases->sent(); }

private:
    std::unique_ptr<BlockSource> source(const Alone& of, const ItemContext& item,
                                        std::span<const AgreedStatistics> statistics,
                                        BlockBuffers& buffers) {
        if (encodes_on_device(*of.scheme, item)) {
            auto made = std::make_unique<ExchangeBlocks>(*of.scheme, item, statistics);
            blocks = made.get();
            return made;
        }
        auto made = std::make_unique<PhaseBlocks>(*of.scheme, of.step, item, statistics, buffers);
        phases = made.get();
        return made;
    }
    ExchangeBlocks* blocks = nullptr;
    const PhaseBlocks* phases = nullptr;

public:
    ItemAccount account;
};

// Computes on the device the schemes that it supports; returns their accounts.
std::set<const ItemAccount*> run_on_device(std::span<ItemAccount* const> accounts,
                                           const ItemContext& item, RowDevice& device) {
    std::vector<ItemAccount*> there;
    std::vector<RowTask> tasks;
    for (ItemAccount* account : accounts) {
        std::optional<RowTask> task = account->task();
        if (!task) continue;
        there.push_back(account);
        tasks.push_back(std::move(*task));
    }
    if (there.empty()) return {};
    std::vector<RowTotals> totals =
        device.run(item.gradients, item.divisor(), item.noise_of(0, item.elements()), tasks);
    for (std::size_t r = 0; r < there.size(); ++r) there[r]->take(std::move(totals[r]));
    return {there.begin(), there.end()};
}

// Computes the schemes on the CPU, in one pass over the item's blocks.
void run_here(std::span<ItemAccount* const> accounts, const ItemContext& item) {
    if (accounts.empty()) return;
    Buffer<double> reference;
    for (std::size_t first = 0; first < item.elements(); first += sum_block) {
        item.add_up(first, std::min(sum_block, item.elements() - first), reference);
        for (ItemAccount* account : accounts) account->add(first, reference);
    }
}

// True if two schemes have the same sums on an item. Side information and transport do not change
// sums, and random words do not depend on the scheme.
bool have_same_sums(const Streamed& a, const Streamed& b) {
    return a.decision->scale == b.decision->scale && a.decision->exponent == b.decision->exponent &&
           a.decision->skipped == b.decision->skipped && a.encoder().grid == b.encoder().grid &&
           a.encoder().reduction == b.encoder().reduction && a.for_last == b.for_last &&
           std::ranges::equal(a.topologies, b.topologies);
}

// The item with the topologies of one scheme.
ItemContext item_of(std::span<const Topology> topologies, bool for_last, ItemContext item) {
    item.topologies = topologies;
    item.last_alone = for_last;
    return item;
}

}  // namespace

bool is_for_device(const ItemContext& item, const RowDevice* device) {
    const std::uint64_t values = std::uint64_t{item.elements()} * item.gradients.size();
    return device != nullptr && values >= device->min_values();
}

BlockBuffers& Workspace::blocks_of(int workers) {
    if (!blocks) blocks.emplace(workers);
    return *blocks;
}

std::vector<std::vector<ResultRow>> streamed_rows(std::span<const Streamed> schemes,
                                                  std::span<const Alone> alone,
                                                  const ItemContext& item, BlockBuffers& buffers,
                                                  RowDevice* device) {
    std::vector<Run<FloatBlocks>> runs;
    runs.reserve(schemes.size());
    std::vector<std::size_t> run_of;  // for each scheme, its place in `runs`
    for (const Streamed& s : schemes) {
        const auto same = std::find_if(
            schemes.begin(), schemes.begin() + static_cast<std::ptrdiff_t>(run_of.size()),
            [&](const Streamed& earlier) { return have_same_sums(earlier, s); });
        const auto place = static_cast<std::size_t>(same - schemes.begin());
        run_of.push_back(place < run_of.size() ? run_of[place] : runs.size());
        if (run_of.back() != runs.size()) continue;
        const ItemContext own = item_of(s.topologies, s.for_last, item);
        runs.emplace_back(own, buffers,
                          std::make_unique<FloatBlocks>(s.encoder(), *s.decision, own, buffers));
    }
    const std::vector<AgreedStatistics> statistics =
        alone.empty() ? std::vector<AgreedStatistics>{} : statistics_of_rows(item.gradients);
    std::vector<std::optional<RunAlone>> alone_runs(alone.size());
    const auto begin_alone = [&](std::size_t i) {
        const ItemContext own = item_of(alone[i].topologies, alone[i].for_last, item);
        return &alone_runs[i].emplace(alone[i], own, statistics, buffers).account;
    };
    std::vector<ItemAccount*> accounts;
    for (auto& run : runs) accounts.push_back(&run.account);
    std::set<const ItemAccount*> done;
    if (is_for_device(item, device)) {
        std::vector<ItemAccount*> all = accounts;
        for (std::size_t i = 0; i < alone.size(); ++i) all.push_back(begin_alone(i));
        done = run_on_device(all, item, *device);
    }
    std::erase_if(accounts, [&](const ItemAccount* account) { return done.contains(account); });
    run_here(accounts, item);
    std::vector<std::vector<ResultRow>> rows;
    for (std::size_t s = 0; s < schemes.size(); ++s) {
        const Run<FloatBlocks>& run = runs[run_of[s]];
        rows.push_back(run.account.rows(run.blocks.sent(*schemes[s].scheme, *schemes[s].decision)));
    }
    // Each reduction in two phases stores sums of shards, so on the CPU one runs after another.
    for (std::size_t i = 0; i < alone.size(); ++i) {
        ItemAccount* const account = alone_runs[i] ? &alone_runs[i]->account : begin_alone(i);
        if (!done.contains(account)) run_here({&account, 1}, item);
        rows.push_back(account->rows(alone_runs[i]->sent()));
        alone_runs[i].reset();
    }
    return rows;
}

}  // namespace apscope::detail
