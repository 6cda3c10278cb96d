#include "emulation/schemes/exchange_run.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "core/fixed_shape_sum.h"
#include "core/float_environment.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/add_row.h"

namespace apscope::detail {

namespace {

const Topology own_reduction{Topology::Kind::gather, 0, false};

std::size_t length_of_piece(std::size_t elements, const SchemeParts& parts, bool at_once) {
    const std::size_t run = parts.encoding.whole_sum ? parts.encoding.whole_sum->run : parts.run;
    if (elements == 0) return 1;
    if (at_once || run >= elements) return elements;
    return std::min(elements, std::lcm(sum_block, run));
}

}  // namespace

ExchangeRun::ExchangeRun(const SchemeParts& parts, const TrainingStep& step, State& state,
                         std::span<const std::span<const float>> gradients,
                         std::span<const Topology> topologies, bool at_once)
    : parts_(parts), step_(step), state_(state), gradients_(gradients),
      topologies_(parts.encoding.crosses_topologies() ? topologies : std::span(&own_reduction, 1)),
      elements_(gradients[0].size()), piece_(length_of_piece(elements_, parts, at_once)),
      takes_(is_one() || (!parts.choice.selects() && !parts.choice.measure)) {
    const std::size_t workers = gradients.size();
    e_.intended.resize(workers);
    e_.sent.resize(workers);
    e_.reduced.resize(topologies_.size());
    own_.resize(workers);
    begin_memory();
    if (is_one()) read_piece(0);
    else if (!takes_) take_all();
    count_special();
    const std::vector<RowReader> rows = readers();
    std::optional<SumsAhead> ahead;
    if (parts.choice.looks_ahead) ahead.emplace(look_ahead());
    theta_ = parts.choice.parameters({step_, state_, rows}, ahead ? &*ahead : nullptr);
    for (std::size_t w = 0; w < workers && parts.choice.measure; ++w)
        own_[w] = parts.choice.measure({step_, theta_, rows[w], w});
    e_.skipped = theta_.skipped;
    e_.scale_exponent = theta_.scale_exponent;
    if (names_scales() && theta_.scale) e_.scales = {*theta_.scale};
    if (adds_ahead()) add_ahead();
}

void ExchangeRun::count_special() {
    const bool counts = parts_.choice.selects() && !parts_.encoding.sees_special;
    if (!is_one() && !counts) return;
    std::vector<std::uint64_t>& of = step_.nonfinite_of;
    of.assign(gradients_.size(), 0);
    if (is_one()) {
        for (const SpecialValue& s : special_) ++of[s.worker];
    } else {
        for (std::size_t w = 0; w < of.size(); ++w)
            of[w] = agreed_statistics(gradients_.subspan(w, 1)).nonfinite;
    }
    if (counts) step_.nonfinite = std::accumulate(of.begin(), of.end(), std::uint64_t{0});
}

void ExchangeRun::add_ahead() {
    const WholeSum& whole = *parts_.encoding.whole_sum;
    const Parameters& theta = drawn(step_.key);
    AddedRows added{step_, state_, gradients_.size()};
    added.moments = &whole_moments_;
    whole_sum_.resize(elements_);
    const bool describes = std::exchange(step_.describes, whole.needs_variances);
    for (std::size_t first = 0; first < elements_; first += piece_) {
        read_piece(first);
        place_special();
        encode(theta);
        Row& sum = e_.reduced[0];
        whole.add({step_, state_, theta, place(), e_.sent, own_reduction}, sum);
        std::ranges::copy(sum, whole_sum_.begin() + static_cast<std::ptrdiff_t>(first));
        added.add(e_.sent);
    }
    step_.describes = describes;
    whole.encode(added, whole_sum_);
}

void ExchangeRun::check(const Row& row, std::size_t length, const char* part) const {
    if (row.size() == length) return;
    const std::string& name = parts_.defined_as;
    throw std::invalid_argument((name.empty() ? "the scheme's " : "scheme '" + name + "': ") +
                                part + " gave " + std::to_string(row.size()) + " values where " +
                                std::to_string(length) + " belong, of " + step_.tensor +
                                " at step " + std::to_string(step_.number));
}

SumsAhead ExchangeRun::look_ahead() const {
    if (topologies_.size() > 1)
        throw std::invalid_argument(
            "there are " + std::to_string(topologies_.size()) +
            " topologies, but this scheme's scale depends on the reduction; "
            "give one topology");
    return {topologies_.empty() ? Topology{} : topologies_[0], 1, [this](std::size_t, std::size_t) {
                return GradientRows{{gradients_.begin(), gradients_.end()}, step_.key};
            }};
}

void ExchangeRun::begin_memory() {
    if (parts_.memory.begin) parts_.memory.begin(state_, gradients_.size(), elements_);
}

void ExchangeRun::take_all() {
    if (!parts_.memory.take) return;
    for (std::size_t w = 0; w < gradients_.size(); ++w) {
        for (std::size_t first = 0; first < elements_; first += piece_) {
            const std::size_t count = count_at(first);
            buffer_.resize(count);
            special_.clear();
            widen_gradients(gradients_[w].subspan(first, count), parts_.encoding.sees_special, w,
                            buffer_, special_);
            parts_.memory.take(state_, {first, elements_}, buffer_, w);
        }
    }
}

std::vector<RowReader> ExchangeRun::readers() {
    std::vector<RowReader> rows;
    for (std::size_t w = 0; w < gradients_.size(); ++w) {
        if (is_one()) {
            rows.push_back(RowReader::of(encoded(w)));
            continue;
        }
        rows.push_back(
            {elements_, [this, w](std::size_t first, std::size_t count) -> std::span<const double> {
                 if (buffer_.size() < count) buffer_.resize(count);
                 const std::span<double> row = std::span(buffer_).first(count);
                 const Place place{first, elements_};
                 special_.clear();
                 widen_gradients(gradients_[w].subspan(first, count), parts_.encoding.sees_special,
                                 w, row, special_);
                 if (parts_.memory.compensate) parts_.memory.compensate(state_, place, row, w);
                 if (parts_.basis.adjust) parts_.basis.adjust(state_, place, row, w);
                 return row;
             }});
    }
    return rows;
}

void ExchangeRun::read(std::size_t first) {
    if (!is_one()) read_piece(first);
}

void ExchangeRun::read_piece(std::size_t first) {
    first_ = first;
    special_.clear();
    const std::size_t count = count_at(first), workers = gradients_.size();
    for (std::size_t w = 0; w < workers; ++w) {
        Row& row = e_.intended[w];
        row.resize(count);
        widen_gradients(gradients_[w].subspan(first, count), parts_.encoding.sees_special, w, row,
                        special_);
        if (takes_ && parts_.memory.take) parts_.memory.take(state_, place(), row, w);
    }
    if (parts_.memory.compensate_all) {
        parts_.memory.compensate_all(step_, state_, e_.intended);
        for (const Row& row : e_.intended) check(row, count, "compensate");
        begin_memory();  // the caller's function may have removed rows
    }
    for (std::size_t w = 0; w < workers && parts_.memory.compensate; ++w)
        parts_.memory.compensate(state_, place(), e_.intended[w], w);
    if (parts_.basis.forward) parts_.basis.forward(step_, state_, e_.intended, turned_);
    else if (parts_.basis.adjust) turned_ = e_.intended;
    for (std::size_t w = 0; w < turned_.size() && parts_.basis.adjust; ++w)
        parts_.basis.adjust(state_, place(), turned_[w], w);
    for (SpecialValue& s : special_) s.intended = e_.intended[s.worker][s.element];
}

// The parameters after draw() with this key, which is also the key of step_. They are stored in
// drawn_, because every piece uses the same keys.
const Parameters& ExchangeRun::drawn(const PhiloxKey& key) {
    if (!parts_.choice.draw) return theta_;
    const auto match = std::find_if(drawn_.begin(), drawn_.end(), [&](const auto& one) {
        return one.first.low == key.low && one.first.high == key.high;
    });
    if (match != drawn_.end()) return match->second;
    Parameters& theta = drawn_.emplace_back(key, theta_).second;
    parts_.choice.draw(step_, theta, elements_);
    return theta;
}

Exchange& ExchangeRun::send(const PhiloxKey& key, bool keeps) {
    step_.key = key;
    const Parameters& theta = drawn(key);
    place_special();
    encode(theta);
    if (names_scales() && !theta_.scales.empty()) {
        e_.scales.resize(e_.intended[0].size());
        for (std::size_t i = 0; i < e_.scales.size(); ++i)
            e_.scales[i] = theta_.scale_at(first_ + i);
    }
    reduce(theta);
    if (parts_.basis.inverse) turn_back();
    for (const Message& m : e_.sent) check(m.values, e_.intended[0].size(), "encode");
    if (keeps && parts_.memory.update) parts_.memory.update(step_, state_, place(), e_);
    if (!parts_.encodes_special()) restore(special_, e_);
    return e_;
}

void ExchangeRun::encode(const Parameters& theta) {
    for (std::size_t w = 0; w < e_.sent.size(); ++w) {
        Message& m = e_.sent[w];
        parts_.encoding.make({step_, theta, own_[w], place(), encoded(w), w}, m);
        check(m.values, encoded(0).size(), "encode");
        if (!parts_.encoding.decode_sum) continue;
        Row& sum = e_.reduced[0];
        if (w == 0) sum.assign(m.codes.size(), 0.0);
        check(m.codes, sum.size(), "encode's codes");
        simd::run<AddRow>(m.codes.data(), sum.size(), sum.data());
        m.codes = Row();
    }
}

// Rewrites the scheme's inputs at elements that are not finite, because restore() may have
// overwritten them. The input is the NaN or infinity if the scheme encodes special values,
// otherwise the number that read_piece() put in its place.
void ExchangeRun::place_special() {
    for (const SpecialValue& s : special_) {
        double& intended = e_.intended[s.worker][s.element];
        intended = parts_.encodes_special() ? s.value : s.intended;
        if (parts_.encodes_special() && !turned_.empty()) turned_[s.worker][s.element] = s.value;
    }
}

void ExchangeRun::reduce(const Parameters& theta) {
    if (parts_.encoding.decode_sum) {
        parts_.encoding.decode_sum(step_, theta, e_.reduced[0]);
        return;
    }
    if (adds_ahead()) {
        const auto piece = [&](const Row& whole, Row& part) {
            const std::size_t n = encoded(0).size();
            part.resize(n);
            std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(first_), n, part.begin());
        };
        piece(whole_sum_, e_.reduced[0]);
        if (whole_moments_.expected.empty()) return;
        piece(whole_moments_.expected, e_.moments.expected);
        piece(whole_moments_.variance, e_.moments.variance);
        return;
    }
    SumMoments* const moments = parts_.basis.inverse ? nullptr : &e_.moments;
    for (std::size_t t = 0; t < topologies_.size(); ++t) {
        parts_.encoding.add({step_, state_, theta, place(), e_.sent, topologies_[t], moments},
                            e_.reduced[t]);
        check(e_.reduced[t], encoded(0).size(), "reduce");
    }
}

void ExchangeRun::turn_back() {
    const std::size_t n = e_.intended[0].size();
    std::vector<Row*> rows;
    for (Message& m : e_.sent) {
        rows.push_back(&m.values);
        if (m.variance.empty()) continue;
        rows.push_back(&m.bias);
        m.variance.assign(n, std::numeric_limits<double>::quiet_NaN());
    }
    for (Row& sum : e_.reduced) rows.push_back(&sum);
    parts_.basis.inverse(step_, state_, rows);
    for (const Row* row : rows) check(*row, n, "inverse");
}

void ExchangeRun::end() {
    if (parts_.memory.end) parts_.memory.end(step_, state_);
}

Exchange exchange(const SchemeParts& parts, const TrainingStep& step, State& state,
                  std::span<const std::span<const float>> gradients,
                  std::span<const Topology> topologies) try {
    const FloatEnvironment environment;
    ExchangeRun run(parts, step, state, gradients, topologies, true);
    run.read(0);
    Exchange e = std::move(run.send(step.key, true));
    run.end();
    return e;
} catch (const std::out_of_range&) {
    refuse_lengths();
}

}  // namespace apscope::detail
