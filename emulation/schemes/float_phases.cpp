#include "emulation/schemes/float_phases.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/fixed_shape_sum.h"
#include "emulation/machine/row_kernels.h"
#include "emulation/schemes/codecs/add_row.h"

namespace apscope::detail {

namespace {

struct AddFloats {
    static APSCOPE_INLINE void run(const float* row, std::size_t count, float* sum) {
        for (std::size_t i = 0; i < count; ++i) sum[i] += row[i];
    }
};
struct WidenFloats {
    static APSCOPE_INLINE void run(const float* row, std::size_t count, double* wide) {
        for (std::size_t i = 0; i < count; ++i) wide[i] = row[i];
    }
};

// True if the scale is chosen from one row alone: from the row's largest magnitude and its number
// of non-finite elements.
bool chooses_alone(const SchemeParts& parts) {
    return parts.streams() && !parts.keeps_state() && parts.needs.empty() &&
           parts.choice.is_alone();
}

}  // namespace

bool are_float_phases(const PlainPhases& phases) {
    const Scheme *phase1 = phases.phase1.get(), *phase2 = phases.phase2.get();
    if (!chooses_alone(phase1->parts) || (phase2 && !chooses_alone(phase2->parts))) return false;
    // If only the sums are rounded stochastically, they have moments, which only the composition
    // (two_phase.cpp) computes.
    return !phase2 || !phase2->parts.draws() || phase1->parts.draws();
}

std::vector<AgreedStatistics> statistics_of_rows(std::span<const std::span<const float>> rows) {
    std::vector<AgreedStatistics> statistics;
    for (const std::span<const float>& row : rows)
        statistics.push_back(agreed_statistics({&row, 1}));
    return statistics;
}

Decision choose_from_row(const SchemeParts& parts, const TrainingStep& step, AgreedStatistics row) {
    row.largest_sum = std::numeric_limits<double>::infinity();  // unknown: no upper bound
    State none;
    return choose_one(parts.choice.choose, step, none, row);
}

std::size_t PhaseExchange::Wires::of(const Decision& decision) {
    const auto same = std::ranges::find_if(decisions, [&](const Decision& d) {
        return d.scale == decision.scale && d.exponent == decision.exponent;
    });
    const auto place = static_cast<std::size_t>(same - decisions.begin());
    if (same != decisions.end()) return place;
    decisions.push_back(decision);
    wires.push_back(
        std::make_unique<FloatWire>(parts.encoding.float_encoder.value().grid, decision, 1));
    return place;
}

PhaseExchange::PhaseExchange(const PlainPhases& phases, const TrainingStep& step,
                             std::span<const std::span<const float>> gradients,
                             std::span<const AgreedStatistics> statistics, FloatBuffers& buffers,
                             FloatBuffers& ahead)
    : phases_(phases), step_(step), gradients_(gradients), buffers_(buffers), ahead_(ahead),
      phase1_{phases.phase1->parts, {}, {}} {
    step_.workers = 1;
    if (phases.phase2 && phases.phase2 != phases.phase1)
        phase2_.emplace(Wires{phases.phase2->parts, {}, {}});
    std::vector<double> scales;
    for (const AgreedStatistics& row : statistics) {
        const Decision decision = choose_from_row(phase1_.parts, step_, row);
        scales.push_back(decision.scale);
        wire_of_.push_back(phase1_.of(decision));
    }
    scale_exponent_ = common_exponent(scales);
}

FloatWire& PhaseExchange::sum_wire(const AgreedStatistics& sum) {
    Wires& wires = phase2_ ? *phase2_ : phase1_;
    return *wires.wires[wires.of(choose_from_row(wires.parts, step_, sum))];
}

const FloatGrid& PhaseExchange::sum_grid() const {
    return phases_.phase2->parts.encoding.float_encoder.value().grid;
}

// Adds the workers' messages in the buffers, from element `at` of each on, in fp32 and rank order.
void PhaseExchange::add_up(std::span<float> sum, const FloatBuffers& buffers,
                           std::size_t at) const {
    for (std::size_t w = 0; w < workers(); ++w) {
        const bool narrow = phase1_.wires[wire_of_[w]]->is_narrow();
        if (!narrow)
            simd::run<AddNarrowed>(buffers.decoded[w].data() + at, w == 0, sum.size(), sum.data());
        else if (w == 0) std::copy_n(buffers.narrow[w].data() + at, sum.size(), sum.data());
        else simd::run<AddFloats>(buffers.narrow[w].data() + at, sum.size(), sum.data());
    }
}

void PhaseExchange::exact_sum(std::span<double> y) const {
    std::ranges::fill(y, -0.0);  // -0 + x is x
    for (std::size_t w = 0; w < workers(); ++w) {
        if (phase1_.wires[wire_of_[w]]->is_narrow())
            simd::run<AddWidened>(y.data(), buffers_.narrow[w].data(), y.size());
        else simd::run<AddRow>(buffers_.decoded[w].data(), y.size(), y.data());
    }
}

// Computes the sum of a shard. The messages of the current block, `count` elements from `first`,
// are in the buffers; those of the shard's other elements are encoded here.
void PhaseExchange::sum_of(const Shard& shard, std::size_t first, std::size_t count) {
    sum_.resize(shard.count);
    const std::size_t end = shard.first + shard.count;
    for (std::size_t i = shard.first; i < end;) {
        const bool at_hand = i >= first && i < first + count;
        const std::size_t until = at_hand     ? first + count
                                  : i < first ? first
                                              : std::numeric_limits<std::size_t>::max();
        const std::size_t n = std::min({until - i, end - i, sum_block});
        const std::span<float> part = std::span(sum_).subspan(i - shard.first, n);
        if (!at_hand) {
            for (std::size_t w = 0; w < workers(); ++w)
                phase1_.wires[wire_of_[w]]->encode({static_cast<std::uint32_t>(w), w},
                                                   gradients_[w].subspan(i, n), i, step_.key, false,
                                                   ahead_);
        }
        add_up(part, at_hand ? buffers_ : ahead_, at_hand ? i - first : 0);
        i += n;
    }
}

// Appends the sum of shard s to done_, with the values that all workers decode.
void PhaseExchange::append_sum(std::size_t s, const Shard& shard) {
    const std::size_t at = done_.size();
    done_.resize(at + shard.count);
    double* done = done_.data() + at;
    if (!phases_.phase2) {
        simd::run<WidenFloats>(static_cast<const float*>(sum_.data()), shard.count, done);
        return;
    }
    const FloatSource owner{static_cast<std::uint32_t>(workers() + s), 0};
    const std::span<const float> sum = sum_;
    FloatWire& wire = sum_wire(agreed_statistics(std::span(&sum, 1)));
    for (std::size_t i = 0; i < shard.count; i += sum_block) {
        const std::size_t n = std::min(sum_block, shard.count - i);
        wire.encode(owner, sum.subspan(i, n), i, step_.key, false, ahead_);
        if (wire.is_narrow())
            simd::run<WidenFloats>(static_cast<const float*>(ahead_.narrow[0].data()), n, done + i);
        else std::copy_n(ahead_.decoded[0].data(), n, done + i);
    }
}

void PhaseExchange::reduce(std::size_t first, std::span<double> y) {
    std::size_t passed = first - done_first_;
    while (done_.size() - passed < y.size()) {
        // At most a block is left, so moving it is cheap.
        done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(passed));
        done_first_ += std::exchange(passed, 0);
        const Shard shard = shard_of(next_, elements(), workers());
        sum_of(shard, first, y.size());
        append_sum(next_++, shard);
    }
    std::copy_n(done_.begin() + static_cast<std::ptrdiff_t>(passed), y.size(), y.begin());
}

}  // namespace apscope::detail
