#include "analysis/summary/noise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>

#include "analysis/summary/groups.h"
#include "analysis/summary/intervals.h"
#include "analysis/summary/losses.h"
#include "analysis/summary/row_table.h"
#include "core/fixed_exp2.h"

namespace apscope::detail {

namespace {

// The jackknife with one value per left-out worker at each of several independent steps: the sum
// over the steps of the mean over the workers, the variance of this sum, and its degrees of
// freedom.
struct Jackknife {
    double total = 0.0, variance = 0.0, squares = 0.0;
    std::size_t workers;

    explicit Jackknife(std::size_t workers) : workers(workers) {}

    void add(std::span<const double> values) {
        const double count = static_cast<double>(workers);
        double mean = 0.0, spread = 0.0;
        for (const double value : values) mean += value;
        mean /= count;
        for (const double value : values) spread += (value - mean) * (value - mean);
        const double one = (count - 1) / count * spread;
        total += mean;
        variance += one;
        squares += one * one;
    }
    // Half of the width of the 95 % interval, with Satterthwaite's degrees of freedom.
    double half() const {
        const double freedom =
            variance > 0 ? variance * variance / (squares / (static_cast<double>(workers) - 1))
                         : 1.0;
        return student_t(std::max(freedom, 1.0)) * std::sqrt(variance);
    }
};

}  // namespace

Noise::Noise(const std::vector<const NoiseRow*>& rows) {
    for (const NoiseRow* row : rows) {
        if (row->without)
            workers_ = std::max(workers_, static_cast<std::size_t>(*row->without) + 1);
    }
    std::map<std::int64_t, std::size_t> place;
    for (const NoiseRow* row : rows) place.try_emplace(row->step, 0);
    for (auto& [number, at] : place) {
        at = steps_.size();
        Step& step = steps_.emplace_back();
        step.number = number;
        step.left.assign(workers_, 0.0);
        step.log2s.assign(workers_, 0.0);
    }
    std::vector<std::size_t> seen(steps_.size() * workers_, 0);
    for (const NoiseRow* row : rows) {
        const std::size_t at = place[row->step];
        Step& step = steps_[at];
        if (row->without) {
            const auto worker = static_cast<std::size_t>(*row->without);
            step.left[worker] += row->noise;
            step.log2s[worker] += row->log2_ratio;
            ++seen[at * workers_ + worker];
        } else {
            step.noise += row->noise;
            noise_blocks_ += row->noise_blocks;
            lone_blocks_ += row->lone_blocks;
        }
    }
    for (std::size_t i = 0; i < seen.size(); ++i) {
        if (seen[i]) continue;  // otherwise the step has no row without this worker
        steps_[i / workers_].left[i % workers_] = missing;
        steps_[i / workers_].log2s[i % workers_] = missing;
    }
}

Interval Noise::typical() const {
    const std::int64_t known = noise_blocks_ - lone_blocks_;
    if (known == 0 || workers_ < 3) return {};
    const double blocks = static_cast<double>(noise_blocks_);
    Jackknife jackknife(workers_);
    for (const Step& step : steps_) {
        std::vector<double> values;
        for (const double log2 : step.log2s) values.push_back(log2 / blocks);
        jackknife.add(values);
    }
    if (std::isnan(jackknife.total)) return {};
    constexpr double ln2 = 0.6931471805599453;
    const double share =
        static_cast<double>(known) / blocks;  // the share of blocks with an estimated spread
    const double bias =
        share * bias_of_log_variance(jackknife.total / share * ln2, static_cast<int>(workers_)) /
        ln2;
    const double half = jackknife.half();
    return {fixed_exp2(bias - half), fixed_exp2(bias + half), fixed_exp2(bias)};
}

Interval Noise::pooled(std::vector<std::pair<std::int64_t, double>> ratio_of_step) const {
    if (workers_ < 3 || ratio_of_step.empty()) return {};
    std::ranges::sort(ratio_of_step);
    const double count = static_cast<double>(ratio_of_step.size()),
                 workers = static_cast<double>(workers_);
    Jackknife jackknife(workers_);
    double plain = 0.0;
    for (const auto& [number, ratio] : ratio_of_step) {
        const auto step = std::ranges::lower_bound(steps_, number, {}, &Step::number);
        if (!std::isfinite(ratio) || step == steps_.end() || step->number != number) return {};
        std::vector<double> values;
        for (const double left : step->left) {
            if (!(left > 0)) return {};
            values.push_back(ratio * step->noise / left / count);
        }
        jackknife.add(values);
        plain += ratio;
    }
    const double middle = workers * (plain / count) - (workers - 1) * jackknife.total,
                 half = jackknife.half();
    const double low = std::max(middle - half, 0.0);
    return {low, middle + half, std::max(middle, low)};
}

NoiseBy parse_noise_by(std::string_view name) {
    if (name == "trace") return NoiseBy::trace;
    if (name == "step") return NoiseBy::step;
    if (name == "tensor") return NoiseBy::tensor;
    if (name == "role") return NoiseBy::role;
    throw std::invalid_argument("noise has no column '" + std::string(name) +
                                "' to group by; use trace, step, tensor or role");
}

std::string NoiseTable::cell(const NoiseRow& row, NoiseBy column) const {
    switch (column) {
        case NoiseBy::trace: return traces[static_cast<std::size_t>(row.trace)];
        case NoiseBy::tensor: return tensors[static_cast<std::size_t>(row.tensor)];
        case NoiseBy::role: return roles[static_cast<std::size_t>(row.role)];
        case NoiseBy::step: break;
    }
    return std::to_string(row.step);
}

NoiseFacts noise_facts(const NoiseTable& table, std::span<const NoiseBy> by, double batch_factor) {
    const std::vector<NoiseRow>& rows = table.rows;
    std::vector<std::int64_t> numbers;
    for (const NoiseRow& row : rows) numbers.push_back(row.step);
    const CodedIntegers steps(numbers);
    Groups groups(rows.size());
    for (const NoiseBy column : by) {
        const auto divide = [&](std::size_t levels, auto code) {
            groups = groups.divided(levels, code);
        };
        switch (column) {
            case NoiseBy::trace:
                divide(table.traces.size(), [&](std::size_t i) { return rows[i].trace; });
                break;
            case NoiseBy::step:
                divide(steps.values.size(), [&](std::size_t i) { return steps.codes[i]; });
                break;
            case NoiseBy::tensor:
                divide(table.tensors.size(), [&](std::size_t i) { return rows[i].tensor; });
                break;
            case NoiseBy::role:
                divide(table.roles.size(), [&](std::size_t i) { return rows[i].role; });
                break;
        }
    }

    struct Step {
        double noise = 0, squares = 0;
    };
    struct Group {
        std::vector<const NoiseRow*> rows;
        std::vector<Step> steps;
        std::map<std::pair<std::int32_t, std::int64_t>, std::size_t> place;  // by trace and step
        std::set<std::int32_t> traces;
        double workers = 0, blocks = 0, without_noise = 0, lone = 0, ratio = 0, scale = 0;
        Interval interval;
    };
    std::vector<Group> of_group(groups.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        Group& group = of_group[groups.of_row[i]];
        const NoiseRow& row = rows[i];
        group.rows.push_back(&row);
        if (row.without) continue;
        group.traces.insert(row.trace);
        const auto [at, is_new] =
            group.place.try_emplace({row.trace, row.step}, group.steps.size());
        if (is_new) group.steps.emplace_back();
        group.steps[at->second].noise += row.noise;
        group.steps[at->second].squares += row.squared_reference;
        group.workers = std::max(group.workers, static_cast<double>(row.workers));
        group.blocks += static_cast<double>(row.blocks);
        group.without_noise += static_cast<double>(row.blocks - row.noise_blocks);
        group.lone += static_cast<double>(row.lone_blocks);
    }
    for (Group& group : of_group) {
        Step sum;
        double ratios = 0, present = 0;
        for (const Step& step : group.steps) {
            sum.noise += step.noise;
            sum.squares += step.squares;
            if (step.squares == 0) continue;
            ratios += step.noise / step.squares;
            ++present;
        }
        const double signal = sum.squares - sum.noise;
        group.ratio = quotient(ratios, present) / batch_factor;
        group.scale = signal > 0      ? sum.noise / signal / batch_factor
                      : sum.noise > 0 ? infinity
                                      : missing;
        if (group.traces.size() == 1) group.interval = Noise(group.rows).typical();
    }

    NoiseFacts out;
    out.first = groups.first;
    Figures& f = out.figures;
    const std::size_t count = of_group.size();
    f.add_integers("workers", count, [&](std::size_t g) { return of_group[g].workers; });
    f.add_integers("steps", count, [&](std::size_t g) { return of_group[g].steps.size(); });
    f.add_integers("blocks", count, [&](std::size_t g) { return of_group[g].blocks; });
    f.add_integers("blocks_without_noise", count,
                   [&](std::size_t g) { return of_group[g].without_noise; });
    f.add_integers("lone_blocks", count, [&](std::size_t g) { return of_group[g].lone; });
    f.add("noise_ratio", count, [&](std::size_t g) { return of_group[g].ratio; });
    f.add("noise_scale", count, [&](std::size_t g) { return of_group[g].scale; });
    f.add("low", count, [&](std::size_t g) { return of_group[g].interval.low; });
    f.add("high", count, [&](std::size_t g) { return of_group[g].interval.high; });
    return out;
}

}  // namespace apscope::detail
