#include "analysis/replay/item_rows.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/fixed_shape_sum.h"

namespace apscope::detail {

namespace {

// The computation of one scheme on an item, which all schemes with the same sums share.
struct Run {
    Run(const Streamed& scheme, const ItemContext& item, BlockBuffers& buffers)
        : Run(item, buffers,
              std::make_unique<FloatBlocks>(scheme.encoder(), *scheme.decision, item, buffers)) {}

    const FloatBlocks& blocks;
    ItemAccount account;

private:
    Run(const ItemContext& item, BlockBuffers& buffers, std::unique_ptr<FloatBlocks> source)
        : blocks(*source), account(item, buffers.account, std::move(source)) {}
};

// Computes on the device the schemes that it supports; returns the accounts of the others.
std::vector<ItemAccount*> run_on_device(std::vector<Run>& runs, const ItemContext& item,
                                        RowDevice* device) {
    std::vector<ItemAccount*> here, there;
    std::vector<RowTask> tasks;
    const std::uint64_t values = std::uint64_t{item.elements()} * item.gradients.size();
    const bool is_worth_it = device != nullptr && values >= device->min_values();
    for (Run& run : runs) {
        const bool on_device = is_worth_it && run.blocks.supports_device();
        (on_device ? there : here).push_back(&run.account);
        if (on_device) tasks.push_back(run.blocks.task());
    }
    if (there.empty()) return here;
    std::vector<RowTotals> totals =
        device->run(item.gradients, item.divisor(), item.noise_of(0, item.elements()), tasks);
    for (std::size_t r = 0; r < there.size(); ++r) there[r]->take(std::move(totals[r]));
    return here;
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
ItemContext item_of(const Streamed& s, ItemContext item) {
    item.topologies = s.topologies;
    item.last_alone = s.for_last;
    return item;
}

}  // namespace

BlockBuffers& Workspace::blocks_of(int workers) {
    if (!blocks) blocks.emplace(workers);
    return *blocks;
}

std::vector<std::vector<ResultRow>> streamed_rows(std::span<const Streamed> schemes,
                                                  const ItemContext& item, BlockBuffers& buffers,
                                                  RowDevice* device) {
    std::vector<Run> runs;
    runs.reserve(schemes.size());
    std::vector<std::size_t> run_of;  // for each scheme, its place in `runs`
    for (const Streamed& s : schemes) {
        const auto same = std::find_if(
            schemes.begin(), schemes.begin() + static_cast<std::ptrdiff_t>(run_of.size()),
            [&](const Streamed& earlier) { return have_same_sums(earlier, s); });
        const auto place = static_cast<std::size_t>(same - schemes.begin());
        run_of.push_back(place < run_of.size() ? run_of[place] : runs.size());
        if (run_of.back() == runs.size()) runs.emplace_back(s, item_of(s, item), buffers);
    }
    const std::vector<ItemAccount*> here = run_on_device(runs, item, device);
    Buffer<double> reference;
    for (std::size_t first = 0; first < item.elements() && !here.empty(); first += sum_block) {
        item.add_up(first, std::min(sum_block, item.elements() - first), reference);
        for (ItemAccount* account : here) account->add(first, reference);
    }
    std::vector<std::vector<ResultRow>> rows;
    for (std::size_t s = 0; s < schemes.size(); ++s) {
        const Run& run = runs[run_of[s]];
        rows.push_back(run.account.rows(run.blocks.sent(*schemes[s].scheme, *schemes[s].decision)));
    }
    return rows;
}

}  // namespace apscope::detail
