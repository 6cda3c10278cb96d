#include "emulation/schemes/exchange.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/fixed_shape_sum.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/add_row.h"

namespace apscope::detail {

double Parameters::common_scale() const {
    if (!scale)
        throw std::invalid_argument(
            "the scheme's select gave no 'scale'; its encode needs one for all elements");
    return *scale;
}

NamedRows Parameters::rows() const {
    NamedRows all = extra.rows();
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
        if (row.empty() || row.mapped().empty()) return std::nullopt;
        if (const std::size_t size = row.mapped().size(); size > 1) {
            throw std::invalid_argument("'" + std::string(name) + "' has " + std::to_string(size) +
                                        " numbers; give one, for all elements and workers");
        }
        return row.mapped()[0];
    };
    theta.scale = first("scale");
    if (const auto exponent = first("scale_exponent"))
        theta.scale_exponent = static_cast<int>(*exponent);
    theta.skipped = first("skipped").value_or(0.0) != 0.0;
    if (auto row = rows.extract("scales"); !row.empty()) theta.scales = std::move(row.mapped());
    theta.extra = Record(std::move(rows));
    return theta;
}

void check_length(std::size_t length, std::size_t expected) {
    if (length == expected) return;
    throw std::invalid_argument("the state has a row of " + std::to_string(length) +
                                " elements for a tensor of " + std::to_string(expected));
}

void refuse_lengths() {
    throw std::invalid_argument(
        "a row of the state, or of what a function chose, has another length than this exchange's; "
        "give the state of an exchange of the same tensors");
}

std::span<double> piece_of(Row& row, const Place& place, std::size_t count) {
    check_length(row.size(), place.size);
    return std::span(row).subspan(place.first, count);
}

std::span<const double> piece_of(const Row& row, const Place& place, std::size_t count) {
    return piece_of(const_cast<Row&>(row), place, count);
}

void AddedRows::add(const std::vector<Message>& messages) {
    for (const Message& m : messages) {
        are_certain = are_certain && m.certain;
        have_variances = have_variances && m.variance.size() == m.values.size();
    }
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
    payload_bits = side_bits = tensor_bits = 0;
}

double ArrayTotals::of(std::size_t worker, const std::function<double()>& find) {
    {
        const std::lock_guard lock(mutex_);
        if (const auto total = found_.find(worker); total != found_.end()) return total->second;
    }
    const double total = find();  // several threads may compute it, with the same result
    const std::lock_guard lock(mutex_);
    return found_.emplace(worker, total).first->second;
}

}  // namespace apscope::detail
