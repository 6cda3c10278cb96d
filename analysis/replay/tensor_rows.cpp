#include "analysis/replay/tensor_rows.h"

#include "analysis/replay/exchange_sums.h"

namespace apscope::detail {

std::vector<ResultRow> tensor_rows(const TensorScheme& scheme, const Exchange& e,
                                   std::span<const std::span<const float>> gradients,
                                   const ExchangeContext& context,
                                   const std::function<Exchange(int draw)>& redraw) {
    ExchangeSums sums(scheme, gradients, context);
    sums.add(e, 0);
    std::vector<ResultRow> rows = sums.rows(e.scale_exponent, e.skipped);
    ExchangeSamples samples(scheme, rows, gradients, context);
    if (!samples.wanted()) return rows;
    samples.take(0, e);
    for (int d = 1; d < context.draws; ++d) samples.take(static_cast<std::size_t>(d), redraw(d));
    samples.add(0);
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
