// Results::summary(): reduces many rows to one number, by docs/definitions.md, section 14.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/statistics/result_row.h"
#include "bindings/cpp/apscope/replay.h"
#include "bindings/cpp/source/results_data.h"
#include "core/fixed_exp2.h"
#include "emulation/schemes/transport.h"

namespace apscope {
namespace {

using detail::ResultRow;

constexpr double missing = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();

double quotient(double numerator, double denominator) {
    return denominator == 0.0 ? missing : numerator / denominator;
}
double or_missing(const ResultRow::Count& count) {
    return count ? static_cast<double>(*count) : missing;
}
double or_zero(const ResultRow::Count& count) { return count ? static_cast<double>(*count) : 0.0; }

bool is_own(std::string_view topology) {
    return std::ranges::find(detail::reductions::own, topology) != detail::reductions::own.end();
}

// The errors of a row, or of the rows of a step. A skipped row is a lost gradient: y = 0.
struct Loss {
    double error = 0, reference = 0, overflow = 0, skipped = 0;
    double noise = 0, log2_over_noise = 0, noise_blocks = 0;  // NaN if the noise is unknown

    static Loss of(const ResultRow& r) {
        return {r.skipped ? r.sum_squared_reference : r.sum_squared_error,
                r.sum_squared_reference,
                or_zero(r.overflow),
                r.skipped ? 1.0 : 0.0,
                r.sum_noise,
                r.sum_log2_error_over_noise,
                or_missing(r.noise_blocks)};
    }
    void add(const Loss& other) {
        error += other.error;
        reference += other.reference;
        overflow += other.overflow;
        skipped += other.skipped;
        noise += other.noise;
        log2_over_noise += other.log2_over_noise;
        noise_blocks += other.noise_blocks;
    }
    bool exists() const { return overflow > 0 || reference != 0; }
    // With overflow at least 1: the sums omit non-finite values.
    double nmse() const {
        const double value = quotient(error, reference);
        return overflow > 0 ? std::fmax(value, 1.0) : value;
    }
    double pooled_over_noise() const {
        return overflow > 0 ? std::numeric_limits<double>::infinity() : quotient(error, noise);
    }
    double over_noise() const {
        return detail::fixed_exp2(quotient(log2_over_noise, noise_blocks));
    }
    double cosine(const ResultRow& r) const {
        if (r.skipped || overflow > 0) return 0.0;
        return std::isnan(r.cosine) && !std::isnan(error) ? 0.0 : r.cosine;
    }
};

// Whether gradients of the row are NaN or infinite; a skipped row is recognised by its counts.
bool is_nonfinite(const ResultRow& r) {
    return r.skipped ? or_zero(r.count) > or_zero(r.counted)
                     : or_zero(r.nan) + or_zero(r.infinite) > 0;
}

// A row with the topology that it counts for.
struct Placed {
    const ResultRow* row;
    std::string topology;
};

// The rows for comparing schemes: reduced ones, every topology with all tensors (in a policy, those
// with their own reduction are included under each topology); for a trace without, the wire's.
std::vector<Placed> compared_rows(const std::vector<ResultRow>& rows) {
    const bool any_reduced = std::ranges::any_of(rows, [](const ResultRow& r) { return !r.wire; });
    struct Topologies {
        std::vector<std::string> own, crossing;
    };
    std::map<std::uint32_t, Topologies> of_scheme;
    for (const ResultRow& r : rows) {
        if (r.wire || r.topology == "exact") continue;
        std::vector<std::string>& known =
            is_own(r.topology) ? of_scheme[r.scheme_index].own : of_scheme[r.scheme_index].crossing;
        if (std::ranges::find(known, r.topology) == known.end()) known.push_back(r.topology);
    }
    for (auto& [scheme, topologies] : of_scheme) {
        if (!topologies.crossing.empty() || topologies.own.empty()) continue;
        std::string all;  // if all have their own reduction, but not the same: all names joined
        for (const std::string& name : topologies.own) all += (all.empty() ? "" : "+") + name;
        topologies.crossing.push_back(all);
    }
    std::vector<Placed> placed;
    for (const ResultRow& r : rows) {
        if (r.wire == any_reduced) continue;
        if (r.wire || !is_own(r.topology)) placed.push_back({&r, r.topology});
        else
            for (const std::string& topology : of_scheme[r.scheme_index].crossing)
                placed.push_back({&r, topology});
    }
    return placed;
}

// The sums of one row of the summary.
class Sums {
public:
    void add(const ResultRow& r, int workers) {
        const Loss loss = Loss::of(r);
        auto [step, is_new] = step_places_.try_emplace(r.step_index, steps_.size());
        if (is_new) steps_.emplace_back();
        steps_[step->second].add(loss);
        if (loss.exists()) {
            cosines_ += loss.cosine(r);
            ++rows_;
            worst(r, loss.overflow > 0 ? infinity : loss.nmse());
        }
        whole_.add(loss);
        absolute_ += r.sum_absolute_reference;
        signed_error_ += r.skipped ? -r.sum_absolute_reference : r.sum_signed_error;
        const double counted = r.skipped ? 0.0 : or_missing(r.counted);
        variance_ += counted == 0 ? 0.0 : r.expected_variance * counted;
        const double elements = r.wire ? or_missing(r.count) / workers : or_missing(r.count);
        volumes_ += elements == 0 ? 0.0 : r.volume * elements;
        elements_ += elements;
        if (!r.skipped) {
            underflow_ += or_zero(r.underflow);
            nonzero_ += or_zero(r.nonzero);
        }
        if (std::ranges::find(formats_, r.format) == formats_.end()) formats_.push_back(r.format);
    }
    double underflow_rate() const { return quotient(underflow_, nonzero_); }

    void write(SummaryRow& out, const Results::Data& data) const {
        double total = 0.0, pooled = 0.0;
        int count = 0, noisy = 0;
        for (const Loss& step : steps_) {
            out.skipped += step.skipped > 0;
            out.overflowed += step.overflow > 0;
            if (step.noise != 0.0) {
                pooled += step.pooled_over_noise();
                ++noisy;
            }
            if (!step.exists()) continue;
            total += step.nmse();
            ++count;
        }
        out.error_over_noise = whole_.over_noise();
        out.pooled_error_over_noise = quotient(pooled, noisy);
        out.step_nmse = quotient(total, count);
        out.layer_cosine = quotient(cosines_, static_cast<double>(rows_));
        out.worst_nmse = missing;
        if (worst_ != nullptr && !std::isnan(worst_nmse_)) {
            out.worst_nmse = worst_nmse_;
            out.worst_layer = data.tensor_names[worst_->tensor_index];
            out.worst_step = data.step_numbers[worst_->step_index];
        }
        out.nmse = whole_.overflow > 0 ? infinity : quotient(whole_.error, whole_.reference);
        out.relative_bias = quotient(signed_error_, absolute_);
        out.expected_variance = quotient(variance_, whole_.reference);
        out.underflow_reduced = out.topology.empty() ? missing : underflow_rate();
        out.volume = quotient(volumes_, elements_);
        for (const std::string& format : formats_)
            out.format += (out.format.empty() ? "" : "+") + format;
    }

private:
    // The first of the largest; one that was not measured is larger than all.
    void worst(const ResultRow& r, double nmse) {
        if (worst_ != nullptr && (std::isnan(worst_nmse_) || nmse <= worst_nmse_)) return;
        worst_ = &r;
        worst_nmse_ = nmse;
    }

    std::map<std::uint32_t, std::size_t> step_places_;
    std::vector<Loss> steps_;
    Loss whole_;
    double cosines_ = 0, absolute_ = 0, signed_error_ = 0, variance_ = 0, volumes_ = 0,
           elements_ = 0, underflow_ = 0, nonzero_ = 0;
    std::size_t rows_ = 0;
    const ResultRow* worst_ = nullptr;
    double worst_nmse_ = 0;
    std::vector<std::string> formats_;
};

}  // namespace

std::vector<SummaryRow> summarize(const Results::Data& data) {
    std::map<std::uint32_t, Sums> wires;
    for (const ResultRow& r : data.rows) {
        if (r.wire) wires[r.scheme_index].add(r, data.workers);
    }
    std::map<std::pair<std::uint32_t, std::string>, std::size_t> places;
    std::vector<SummaryRow> summary;
    std::vector<Sums> sums;
    for (const Placed& placed : compared_rows(data.rows)) {
        const std::uint32_t scheme = placed.row->scheme_index;
        const auto [place, is_new] = places.try_emplace({scheme, placed.topology}, sums.size());
        if (is_new) {
            sums.emplace_back();
            SummaryRow row;
            row.scheme = data.schemes[scheme];
            row.family = data.families[scheme];
            row.topology = placed.topology;
            row.underflow_wire =
                wires.contains(scheme) ? wires.at(scheme).underflow_rate() : missing;
            summary.push_back(std::move(row));
        }
        sums[place->second].add(*placed.row, data.workers);
    }
    std::set<std::uint32_t> odd_steps;
    for (const ResultRow& r : data.rows) {
        if (is_nonfinite(r)) odd_steps.insert(r.step_index);
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i].write(summary[i], data);
        summary[i].nonfinite = static_cast<std::int64_t>(odd_steps.size());
    }
    std::ranges::stable_sort(summary, [](const SummaryRow& a, const SummaryRow& b) {
        if ((a.topology == "exact") != (b.topology == "exact"))
            return b.topology == "exact";  // an ideal that no system runs
        if ((a.overflowed > 0) != (b.overflowed > 0)) return b.overflowed > 0;
        const auto before = [](double x, double y) {
            return x < y || (!std::isnan(x) && std::isnan(y));
        };
        if (before(a.error_over_noise, b.error_over_noise)) return true;
        if (before(b.error_over_noise, a.error_over_noise)) return false;
        return before(a.step_nmse, b.step_nmse);
    });
    return summary;
}

}  // namespace apscope
