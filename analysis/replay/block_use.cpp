#include "analysis/replay/block_use.h"

#include <algorithm>
#include <cmath>

#include "core/bits.h"

namespace apscope::detail {

void BlockUse::Totals::merge(const Totals& other) {
    blocks_ += other.blocks_;
    saturated_ += other.saturated_;
    range_sum_ += other.range_sum_;
    range_max_ = std::max(range_max_, other.range_max_);
    scale_min_ = std::min(scale_min_, other.scale_min_);
    scale_max_ = std::max(scale_max_, other.scale_max_);
}

BlockUse::Totals BlockUse::totals() const {
    Totals all = closed_;
    if (open_.most == 0) return all;
    Totals last{1, open_.saturated, 0, std::ilogb(bits_cast<double>(open_.most)) - std::ilogb(bits_cast<double>(open_.least))};
    last.range_sum_ = static_cast<std::uint64_t>(last.range_max_);
    if (open_.scale > 0.0) last.scale_min_ = last.scale_max_ = std::ilogb(open_.scale);
    all.merge(last);
    return all;
}

std::optional<int> BlockUse::scale_spread() const {
    const Totals all = totals();
    return all.scale_min_ <= all.scale_max_ ? std::optional(all.scale_max_ - all.scale_min_) : std::nullopt;
}

void BlockUse::add(std::span<const double> row, const Message& message, std::size_t first) {
    const std::size_t run = message.run;
    for (std::size_t begin = 0; begin < row.size();) {
        const std::size_t index = (first + begin) / run, end = std::min(row.size(), begin + run - (first + begin) % run);
        if (open_.index != index) {
            closed_ = totals();
            open_ = {index, infinity_bits<double>, 0, false, message.run_scales[index - first / run]};
        }
        std::uint64_t least = open_.least, most = open_.most;
        for (std::size_t i = begin; i < end; ++i) {
            const std::uint64_t size = bits_cast<std::uint64_t>(row[i]) & ~sign_bit<double>;
            const bool counts = size != 0 && size < infinity_bits<double>;
            least = counts && size < least ? size : least;
            most = counts && size > most ? size : most;
        }
        open_.least = least;
        open_.most = most;
        for (std::size_t i = begin; i < end && !message.saturated.empty() && !open_.saturated; ++i) open_.saturated = message.saturated[i] != 0;
        begin = end;
    }
}

void BlockUse::merge(const BlockUse& other) {
    closed_ = totals();
    closed_.merge(other.totals());
    open_ = {};
}

}  // namespace apscope::detail
