#include "emulation/schemes/tensor_scheme.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/fixed_shape_sum.h"
#include "core/float_environment.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/add_row.h"
#include "emulation/schemes/special_values.h"

namespace apscope::detail {

namespace {

// What a part of a scheme that is called `name` gave of a tensor.
void check_length(const Row& row, std::size_t length, const char* part, const std::string& name,
                  const TrainingStep& step) {
    if (row.size() == length) return;
    throw std::invalid_argument((name.empty() ? "the scheme's " : "scheme '" + name + "': ") +
                                part + " gave " + std::to_string(row.size()) + " values where " +
                                std::to_string(length) + " belong, of " + step.tensor +
                                " at step " + std::to_string(step.number));
}

// The same in fp32; the first row starts the sum.
struct AddNarrowed {
    static APSCOPE_INLINE void run(const double* row, bool is_first, std::size_t count,
                                   float* sum) {
        for (std::size_t i = 0; i < count; ++i)
            sum[i] = is_first ? static_cast<float>(row[i]) : sum[i] + static_cast<float>(row[i]);
    }
};

// Whole rows have a scale an element.
void spread_scales(Parameters& theta, std::size_t n) {
    if (theta.scales.empty() || theta.unit == 1) return;
    Row each(n);
    for (std::size_t i = 0; i < n; ++i) each[i] = theta.scales[i / theta.unit];
    theta.scales = std::move(each);
    theta.unit = 1;
}

}  // namespace

double Parameters::common_scale() const {
    if (!scale)
        throw std::invalid_argument(
            "the scheme's select gave no 'scale'; its encode needs one for all elements");
    return *scale;
}

NamedRows Parameters::rows() const {
    NamedRows all = own.rows();
    if (scale) all["scale"] = {*scale};
    if (!scales.empty()) all["scales"] = scales;
    if (scale_exponent) all["scale_exponent"] = {static_cast<double>(*scale_exponent)};
    if (skipped) all["skipped"] = {1.0};
    return all;
}

Parameters Parameters::of_rows(NamedRows rows) {
    Parameters theta;
    const auto first = [&](const char* name) -> std::optional<double> {
        const auto row = rows.extract(name);
        return row.empty() || row.mapped().empty() ? std::nullopt : std::optional(row.mapped()[0]);
    };
    theta.scale = first("scale");
    if (const auto exponent = first("scale_exponent"))
        theta.scale_exponent = static_cast<int>(*exponent);
    theta.skipped = first("skipped").value_or(0.0) != 0.0;
    if (auto row = rows.extract("scales"); !row.empty()) theta.scales = std::move(row.mapped());
    theta.own = Record(std::move(rows));
    return theta;
}

std::span<double> piece_of(Row& row, const Place& place, std::size_t count) {
    if (row.size() != place.size) {
        throw std::invalid_argument("the state has a row of " + std::to_string(row.size()) +
                                    " elements for a tensor of " + std::to_string(place.size));
    }
    return std::span(row).subspan(place.first, count);
}

std::span<const double> piece_of(const Row& row, const Place& place, std::size_t count) {
    return piece_of(const_cast<Row&>(row), place, count);
}

void exact_sum(const std::vector<Message>& sent, Row& sum) {
    sum = sent.at(0).values;
    for (std::size_t w = 1; w < sent.size(); ++w)
        simd::run<AddRow>(sent[w].values.data(), sum.size(), sum.data());
}

void sum_of_codes(const std::vector<Message>& sent, Row& sum) {
    sum.assign(sent.at(0).codes.size(), 0.0);
    for (const Message& m : sent) simd::run<AddRow>(m.codes.data(), sum.size(), sum.data());
}

void gathered_sum(const std::vector<Message>& sent, Row& sum) {
    sum.resize(sent.at(0).values.size());
    float totals[sum_block];
    for (std::size_t first = 0; first < sum.size(); first += sum_block) {
        const std::size_t count = std::min(sum_block, sum.size() - first);
        float* part = totals;
        for (std::size_t w = 0; w < sent.size(); ++w)
            simd::run<AddNarrowed>(sent[w].values.data() + first, w == 0, count, part);
        std::copy(totals, totals + count, sum.begin() + static_cast<std::ptrdiff_t>(first));
    }
}

void Message::prepare(std::size_t n, bool with_codes, bool with_moments) {
    values.resize(n);
    codes.resize(with_codes ? n : 0);
    bias.resize(with_moments ? n : 0);
    variance.resize(with_moments ? n : 0);
    certain = false;
    grid_use.reset();
    saturated.clear();
    block_use.reset();
    payload.clear();
    payload_bits = side_bits = 0;
}

void TensorScheme::set_blocks(BlockPart part) {
    const auto p = std::make_shared<const BlockPart>(part);
    blocks = std::move(part);
    compensate = {};
    if (p->begin || p->take || p->compensate) {
        compensate = [p](const TrainingStep& step, State& state, Rows& rows) {
            const std::size_t n = rows[0].size();
            if (p->begin) p->begin(state, rows.size(), n);
            for (std::size_t w = 0; w < rows.size(); ++w) {
                check_length(rows[w], n, "rows of gradients", "", step);
                if (p->take) p->take(step, state, {0, n}, rows[w], static_cast<int>(w));
                if (p->compensate) p->compensate(step, state, {0, n}, rows[w], static_cast<int>(w));
            }
        };
    }
    forward = {};
    if (p->forward || p->adjust) {
        forward = [p](const TrainingStep& step, const State& state, const Rows& rows) {
            Rows x;
            if (p->forward) p->forward(step, rows, x);
            else x = rows;
            for (std::size_t w = 0; w < x.size() && p->adjust; ++w)
                p->adjust(step, state, {0, x[w].size()}, x[w], static_cast<int>(w));
            return x;
        };
    }
    select = {};
    if (p->select || p->draw) {
        select = [p](const TrainingStep& step, State& state, const Rows& rows) {
            std::vector<RowReader> readers;
            for (const Row& row : rows) readers.push_back(RowReader::of(row));
            Parameters theta = p->select ? p->select(step, state, readers) : Parameters{};
            if (p->draw) p->draw(step, theta, rows[0].size());
            spread_scales(theta, rows[0].size());
            return theta;
        };
    }
    encode = [p](const TrainingStep& step, const Parameters& theta, std::span<const double> x,
                 int worker) {
        Message m;
        const Row own = p->measure ? p->measure(step, theta, RowReader::of(x)) : Row{};
        p->encode(step, theta, own, {0, x.size()}, x, worker, m);
        return m;
    };
    reduce = {};
    if (p->reduce) {
        reduce = [p](const TrainingStep& step, State& state, const Parameters& theta,
                     const std::vector<Message>& sent, const Topology& topology) {
            Row sum;
            p->reduce(step, state, theta, {0, sent.at(0).values.size()}, sent, topology, sum);
            return sum;
        };
    }
    update = {};
    if (p->update || p->end) {
        update = [p](const TrainingStep& step, State& state, const Exchange& e) {
            if (p->update) p->update(step, state, {0, e.intended.at(0).size()}, e);
            if (p->end) p->end(step, state);
        };
    }
}

Exchange exchange_rows(const TensorScheme& scheme, const TrainingStep& step, State& state,
                       Rows gradients, std::span<const Topology> topologies) {
    const FloatEnvironment environment;
    const std::size_t n = gradients.at(0).size();
    Exchange e;
    e.intended = std::move(gradients);
    if (scheme.compensate) scheme.compensate(step, state, e.intended);
    for (const Row& row : e.intended) check_length(row, n, "compensate", scheme.name, step);

    const bool turns_later = scheme.forward && scheme.agrees_unturned;
    Rows turned = scheme.forward && !turns_later ? scheme.forward(step, state, e.intended) : Rows{};
    const Rows& seen = scheme.forward && !turns_later ? turned : e.intended;
    const Parameters theta = scheme.select ? scheme.select(step, state, seen) : Parameters{};
    e.scale_exponent = theta.scale_exponent;
    e.skipped = theta.skipped;
    if (scheme.limits && !scheme.inverse) {
        if (!theta.scales.empty()) e.scales = theta.scales;
        else if (theta.scale) e.scales = {*theta.scale};
    }

    const auto back = [&](Row& row) {
        scheme.inverse(step, state, row);
        check_length(row, n, "inverse", scheme.name, step);
    };
    const auto turn_back = [&](Message& message) {
        if (!scheme.inverse) return;
        const bool drawn = !message.variance.empty();
        back(message.values);
        if (!drawn) return;
        back(message.bias);
        if (scheme.inverse_variance)
            message.variance = scheme.inverse_variance(step, state, message.variance);
        else message.variance.assign(n, std::numeric_limits<double>::quiet_NaN());
        check_length(message.variance, n, "inverse_variance", scheme.name, step);
    };
    const auto turn = [&](std::size_t worker) {  // what only this worker's message is made of
        if (!turns_later) return std::move(turned[worker]);
        Rows alone(1);
        std::swap(alone[0], e.intended[worker]);
        Row row = std::move(scheme.forward(step, state, alone).at(0));
        std::swap(alone[0], e.intended[worker]);
        return row;
    };
    std::size_t length = 0;
    Row codes;
    for (std::size_t w = 0; w < e.intended.size(); ++w) {
        Row own = scheme.forward ? turn(w) : Row();
        const Row& x = scheme.forward ? own : e.intended[w];
        if (w == 0) {
            length = x.size();
            codes.assign(scheme.decode_sum ? length : 0, 0.0);
        }
        Message message = scheme.encode(step, theta, x, static_cast<int>(w));
        check_length(message.values, length, "encode", scheme.name, step);
        own = Row();
        if (scheme.decode_sum) {
            check_length(message.codes, length, "encode's codes", scheme.name, step);
            simd::run<AddRow>(message.codes.data(), length, codes.data());
            message.codes = Row();
            turn_back(message);
        }
        e.sent.push_back(std::move(message));
    }
    if (scheme.decode_sum) {
        scheme.decode_sum(step, theta, codes);
        e.reduced.push_back(std::move(codes));
    } else {
        const Topology own{Topology::Kind::gather, 0, false};
        const std::span<const Topology> wanted =
            scheme.crosses_topologies ? topologies : std::span(&own, 1);
        for (const Topology& topology : wanted) {
            Row sum;
            if (scheme.reduce) sum = scheme.reduce(step, state, theta, e.sent, topology);
            else gathered_sum(e.sent, sum);
            check_length(sum, length, "reduce", scheme.name, step);
            e.reduced.push_back(std::move(sum));
        }
        for (Message& message : e.sent) turn_back(message);
    }
    if (scheme.inverse) {
        for (Row& row : e.reduced) back(row);
    }
    for (const Message& message : e.sent)
        check_length(message.values, n, "encode", scheme.name, step);
    if (scheme.update) scheme.update(step, state, e);
    return e;
}

Exchange exchange(const TensorScheme& scheme, const TrainingStep& step, State& state,
                  std::span<const std::span<const float>> gradients,
                  std::span<const Topology> topologies) {
    const FloatEnvironment environment;
    std::vector<SpecialValue> special;
    Rows rows;
    for (std::size_t w = 0; w < gradients.size(); ++w) {
        widen_gradients(gradients[w], scheme.sees_special, w,
                        rows.emplace_back(gradients[w].size()), special);
    }
    Exchange e = exchange_rows(scheme, step, state, std::move(rows), topologies);
    restore(special, e);
    return e;
}

}  // namespace apscope::detail
