#include "emulation/schemes/lookahead.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>

#include "core/fixed_shape_sum.h"
#include "emulation/machine/parallel.h"
#include "emulation/schemes/float_exchange.h"

namespace apscope::detail {

namespace {

constexpr std::size_t chunk = 64 * sum_block;  // elements that a thread takes at a time

// Elements first .. end - 1.
bool are_finite(const GradientRows& item, std::size_t first, std::size_t end,
                const FloatEncoder& encoder, const Decision& decision, const Topology& topology) {
    const bool exact = topology.kind == Topology::Kind::exact || encoder.reduction.exact;
    const auto workers = static_cast<int>(item.rows.size());
    thread_local std::optional<FloatBuffers> buffers;
    if (!buffers || buffers->narrow.size() != item.rows.size()) buffers.emplace(workers);
    FloatExchange exchange(encoder, decision, workers, !exact, *buffers);
    double y[sum_block];
    for (; first < end; first += sum_block) {
        const std::size_t n = std::min(sum_block, end - first);
        for (std::size_t w = 0; w < item.rows.size(); ++w)
            exchange.encode(w, item.rows[w].subspan(first, n), first, item.key);
        exchange.reduce(topology, exact, first, item.rows[0].size(), item.key, 1.0,
                        std::span(y, n));
        if (!std::all_of(y, y + n, [](double sum) { return std::isfinite(sum); })) return false;
    }
    return true;
}

}  // namespace

bool SumsAhead::sums_are_finite(std::size_t step, std::span<const std::size_t> tensors,
                                const FloatEncoder& encoder, const Decision& decision) const {
    struct Piece {
        std::size_t item, first;
    };
    std::vector<GradientRows> items;
    std::vector<Piece> pieces;
    for (const std::size_t tensor : tensors) {
        items.push_back(read_(step, tensor));
        for (std::size_t first = 0; first < items.back().rows[0].size(); first += chunk)
            pieces.push_back({items.size() - 1, first});
    }
    std::atomic<bool> finite{true};
    parallel_for(pieces.size(), threads_, [&](std::size_t i) {
        if (!finite.load(std::memory_order_relaxed)) return;
        const auto& [item, first] = pieces[i];
        const std::size_t end = std::min(first + chunk, items[item].rows[0].size());
        if (!are_finite(items[item], first, end, encoder, decision, topology_))
            finite.store(false, std::memory_order_relaxed);
    });
    return finite;
}

}  // namespace apscope::detail
