#include "emulation/schemes/block_exchange.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "core/fixed_shape_sum.h"

namespace apscope::detail {

namespace {

const Topology own_reduction{Topology::Kind::gather, 0, false};

}  // namespace

const BlockPart& block_part(const TensorScheme& scheme) {
    if (!scheme.blocks) throw std::logic_error("the scheme does not run block by block");
    return *scheme.blocks;
}

BlockExchange::BlockExchange(const TensorScheme& scheme, const TrainingStep& step, State& state,
                             std::span<const std::span<const float>> gradients,
                             std::span<const Topology> topologies)
    : scheme_(scheme), part_(block_part(scheme)), step_(step), state_(state), gradients_(gradients),
      topologies_(scheme.crosses_topologies ? topologies : std::span(&own_reduction, 1)),
      elements_(gradients[0].size()),
      piece_(std::max<std::size_t>(
          std::min(elements_,
                   std::lcm(sum_block, std::min(part_.run, std::max<std::size_t>(elements_, 1)))),
          1)),
      takes_(!part_.select && !part_.measure) {
    const std::size_t workers = gradients.size();
    e_.intended.resize(workers);
    e_.sent.resize(workers);
    e_.reduced.resize(topologies_.size());
    own_.resize(workers);
    if (part_.begin) part_.begin(state_, workers, elements_);
    if (!takes_) take_all();
    const std::vector<RowReader> rows = readers();
    if (part_.select) theta_ = part_.select(step_, state_, rows);
    for (std::size_t w = 0; w < workers && part_.measure; ++w)
        own_[w] = part_.measure(step_, theta_, rows[w]);
    e_.skipped = theta_.skipped;
    e_.scale_exponent = theta_.scale_exponent;
    if (scheme.limits && theta_.scale) e_.scales = {*theta_.scale};
}

void BlockExchange::take_all() {
    if (!part_.take) return;
    for (std::size_t w = 0; w < gradients_.size(); ++w) {
        for (std::size_t first = 0; first < elements_; first += piece_) {
            const std::size_t count = count_at(first);
            buffer_.resize(count);
            special_.clear();
            widen_gradients(gradients_[w].subspan(first, count), scheme_.sees_special, w, buffer_,
                            special_);
            part_.take(step_, state_, {first, elements_}, buffer_, static_cast<int>(w));
        }
    }
}

std::vector<RowReader> BlockExchange::readers() {
    std::vector<RowReader> rows;
    for (std::size_t w = 0; w < gradients_.size(); ++w) {
        rows.push_back(
            {elements_, [this, w](std::size_t first, std::size_t count) -> std::span<const double> {
            if (buffer_.size() < count) buffer_.resize(count);
            const std::span<double> row = std::span(buffer_).first(count);
            special_.clear();
            widen_gradients(gradients_[w].subspan(first, count), scheme_.sees_special, w, row,
                            special_);
            if (part_.compensate)
                part_.compensate(step_, state_, {first, elements_}, row, static_cast<int>(w));
            if (part_.adjust)
                part_.adjust(step_, state_, {first, elements_}, row, static_cast<int>(w));
            return row;
        }});
    }
    return rows;
}

void BlockExchange::read(std::size_t first) {
    first_ = first;
    special_.clear();
    const std::size_t count = count_at(first);
    for (std::size_t w = 0; w < gradients_.size(); ++w) {
        Row& row = e_.intended[w];
        row.resize(count);
        widen_gradients(gradients_[w].subspan(first, count), scheme_.sees_special, w, row,
                        special_);
        if (takes_ && part_.take) part_.take(step_, state_, place(), row, static_cast<int>(w));
        if (part_.compensate) part_.compensate(step_, state_, place(), row, static_cast<int>(w));
    }
    if (part_.forward) part_.forward(step_, e_.intended, turned_);
    else if (part_.adjust) turned_ = e_.intended;
    for (std::size_t w = 0; w < turned_.size() && part_.adjust; ++w)
        part_.adjust(step_, state_, place(), turned_[w], static_cast<int>(w));
    for (SpecialValue& s : special_) s.intended = e_.intended[s.worker][s.element];
}

// Of step_, which has this key. A key comes again with every piece.
const Parameters& BlockExchange::drawn(const PhiloxKey& key) {
    if (!part_.draw) return theta_;
    const auto found = std::find_if(drawn_.begin(), drawn_.end(), [&](const auto& one) {
        return one.first.low == key.low && one.first.high == key.high;
    });
    if (found != drawn_.end()) return found->second;
    Parameters& theta = drawn_.emplace_back(key, theta_).second;
    part_.draw(step_, theta, elements_);
    return theta;
}

const Exchange& BlockExchange::send(const PhiloxKey& key, bool keeps) {
    step_.key = key;
    const Parameters& theta = drawn(key);
    for (const SpecialValue& s : special_)
        e_.intended[s.worker][s.element] = s.intended;  // restore() wrote over it
    for (std::size_t w = 0; w < e_.sent.size(); ++w) {
        const Row& x = turned_.empty() ? e_.intended[w] : turned_[w];
        part_.encode(step_, theta, own_[w], place(), x, static_cast<int>(w), e_.sent[w]);
    }
    if (scheme_.limits && !theta_.scales.empty()) {
        e_.scales.resize(e_.intended[0].size());
        for (std::size_t i = 0; i < e_.scales.size(); ++i)
            e_.scales[i] = theta_.scales[(first_ + i) / theta_.unit];
    }
    for (std::size_t t = 0; t < topologies_.size(); ++t) {
        if (part_.reduce)
            part_.reduce(step_, state_, theta, place(), e_.sent, topologies_[t], e_.reduced[t]);
        else gathered_sum(e_.sent, e_.reduced[t]);
    }
    if (keeps && part_.update) part_.update(step_, state_, place(), e_);
    restore(special_, e_);
    return e_;
}

void BlockExchange::end() {
    if (part_.end) part_.end(step_, state_);
}

}  // namespace apscope::detail
