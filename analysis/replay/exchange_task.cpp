#include "analysis/replay/exchange_task.h"

#include <algorithm>
#include <cmath>

#include "emulation/allreduce/fp32_sums.h"
#include "emulation/blocks/blocks.h"
#include "emulation/schemes/codecs/block_row.h"
#include "emulation/schemes/codecs/rotation.h"
#include "emulation/schemes/special_values.h"
#include "emulation/schemes/two_phase.h"

namespace apscope::detail {

namespace {

// True if the parts encode blocks of which the blocks of the fixed-shape sums consist.
bool encodes_blocks(const SchemeParts& parts) {
    const SchemeEncoding& encoding = parts.encoding;
    // Common random words are those of other streams.
    if (!parts.only_encodes() || parts.choice.draw || parts.memory.compares_intended) return false;
    if (encoding.units)
        return sum_block % encoding.units->unit == 0 &&
               encoding.float_encoder->grid.division == Division{};
    if (encoding.uniform) return sum_block % encoding.uniform->bucket == 0;
    return encoding.blocks && has_device_blocks(encoding.blocks->format);
}

// True if no rounding of a finite number overflows, so that moments with a closed form are known,
// and it is known before the roundings which rows K draws estimate.
bool saturates(const SchemeParts& parts) {
    const SchemeEncoding& encoding = parts.encoding;
    if (encoding.uniform) return true;
    const Projection& projection =
        encoding.units ? encoding.float_encoder->grid.projection : encoding.blocks->projection;
    return projection.overflow == Overflow::saturate;
}

const SchemeParts& phase1_of(const SchemeParts& scheme) {
    return scheme.encoding.plain_phases ? scheme.encoding.plain_phases->phase1->parts : scheme;
}

// amax: the largest finite magnitude of the row from which each tensor scale follows.
BlockTask block_task(const BlockEncoding& encoding, std::vector<float> amax) {
    if (!encoding.format.tensor_scale) amax.clear();
    return {encoding.format, encoding.projection, std::move(amax), encoding.rotates};
}

// The largest magnitudes of the workers' rows as they are rounded.
std::vector<float> amax_of_rows(const BlockEncoding& encoding, const ItemContext& item,
                                std::span<const AgreedStatistics> statistics) {
    std::vector<float> amax;
    if (!encoding.rotates) {
        for (const AgreedStatistics& row : statistics) amax.push_back(static_cast<float>(row.amax));
        return amax;
    }
    if (!encoding.format.tensor_scale) return amax;
    Row finite;
    for (const std::span<const float> row : item.gradients) {
        const RowReader reader{row.size(), [&](std::size_t first, std::size_t count) {
                                   finite.resize(count);
                                   widen_finite(row.subspan(first, count), finite);
                                   return std::span<const double>(finite);
                               }};
        amax.push_back(narrow_row(Row{amax_of(reader, true, false)})[0]);
    }
    return amax;
}

UnitTask unit_task(const SchemeParts& parts, int workers) {
    const UnitEncoding& units = *parts.encoding.units;
    const FloatGrid& grid = parts.encoding.float_encoder->grid;
    const FloatFormat& format = grid.format;
    const WireTask wire{{make_cast<double>(format, grid.projection), 1.0, 1.0,
                         format.smallest_normal(), format.largest()},
                        grid.projection,
                        std::nullopt,
                        1.0};
    const RoundingMode mode = grid.projection.rounding;
    std::optional<FloatFormat> of_fp32;
    if (std::ilogb(format.smallest_positive()) >= -60 && format.zero != Zero::none &&
        (is_nearest(mode) || mode == RoundingMode::toward_zero))
        of_fp32 = format;
    return {wire, of_fp32, units.unit,
            [shift = units.shift, workers](double amax) { return shift(amax, workers); }};
}

PhaseTask phase_task(const Scheme* phase2) {
    PhaseTask task;
    if (phase2 == nullptr) return task;
    const SchemeEncoding& encoding = phase2->parts.encoding;
    if (encoding.units) task.units = unit_task(phase2->parts, 1);
    else if (encoding.uniform) task.uniform = encoding.uniform;
    else task.blocks = block_task(*encoding.blocks, {});
    return task;
}

}  // namespace

bool encodes_on_device(const SchemeParts& scheme, const ItemContext& item) {
    const SchemeEncoding& encoding = scheme.encoding;
    const bool draws = scheme.draws() || scheme.sums_draw();
    if (!encoding.plain_phases)
        return encodes_blocks(scheme) && (item.draws == 1 || !draws || saturates(scheme)) &&
               (!encoding.crosses_topologies() ||
                std::ranges::all_of(item.topologies, &Topology::is_plain));
    const PlainPhases& phases = *encoding.plain_phases;
    // If only the sums draw, they have moments, which no step of a device computes.
    const bool known = !draws || (item.draws == 1 && phases.phase1->parts.draws());
    return item.reduces && known && encodes_blocks(phases.phase1->parts) &&
           (!phases.phase2 || encodes_blocks(phases.phase2->parts));
}

RowTask exchange_task(const SchemeParts& scheme, const ItemContext& item,
                      std::span<const AgreedStatistics> statistics,
                      std::span<const RowFacts> reduced) {
    const PlainPhases* phases = scheme.encoding.plain_phases.get();
    const SchemeParts& parts = phase1_of(scheme);
    const SchemeEncoding& encoding = parts.encoding;
    RowTask task;
    if (encoding.units) {
        task.units = unit_task(parts, phases ? 1 : item.workers());
        task.units->agrees = phases == nullptr;
    } else if (encoding.uniform) {
        task.uniform = encoding.uniform;
    } else {
        std::vector<float> amax = amax_of_rows(*encoding.blocks, item, statistics);
        if (encoding.blocks->agrees && phases == nullptr)
            std::ranges::fill(amax, std::ranges::max(amax));
        task.blocks = block_task(*encoding.blocks, std::move(amax));
    }
    if (phases) task.phases = phase_task(phases->phase2.get());
    task.wire_draws = task.wants_moments =
        encoding.uniform ||
        is_stochastic(encoding.units ? encoding.float_encoder->grid.projection.rounding
                                     : encoding.blocks->projection.rounding);
    const Reduction* codes =
        encoding.units && phases == nullptr ? &encoding.float_encoder->reduction : nullptr;
    if (codes) {
        task.accumulator = make_accumulator(codes->accumulate, codes->projection).cast();
        const std::optional<Fp32Sums> sums =
            fp32_sums(encoding.float_encoder->grid.format, codes->accumulate, codes->projection, 0,
                      item.workers());
        if (sums && (sums->in_hardware || sums->step))
            task.step = sums->step.value_or(StepCast<float>{});
    } else {
        task.step.emplace();  // decoded values are added in fp32
    }
    const bool draws = scheme.draws() || scheme.sums_draw();
    for (std::size_t r = 0; r < reduced.size(); ++r) {
        const Topology topology =
            codes && r > 0 ? item.topologies[r - 1] : Topology{Topology::Kind::gather, 0, false};
        task.reduced.push_back({topology, reduced[r].exact || (codes && codes->exact),
                                reduced[r].adds_moments && task.wants_moments,
                                draws && !reduced[r].adds_moments});
    }
    const bool samples = std::ranges::any_of(task.reduced, &RowTask::Reduced::sampled);
    for (int d = 0; d < (samples ? item.draws : 1); ++d)
        task.keys.push_back(item.key(static_cast<std::size_t>(d)));
    return task;
}

MessageBits message_bits(const SchemeParts& scheme, std::size_t elements) {
    const SchemeEncoding& encoding = phase1_of(scheme).encoding;
    if (encoding.units) {
        const std::size_t unit = encoding.units->unit;
        return {payload_bits(encoding.float_encoder->grid, elements),
                8 * ((elements + unit - 1) / unit), 0};
    }
    if (const std::optional<UniformGrid>& grid = encoding.uniform)
        return {grid->payload_bits(elements), 32 * ((elements + grid->bucket - 1) / grid->bucket),
                0};
    const BlockFormat& format = encoding.blocks->format;
    const auto blocks = BlockShape{1, elements, 1}.blocks(format);
    const ScaleBits side = scale_bits_of(format, blocks);
    // The zeros that pad a rotated group are sent, too.
    const std::size_t sent = encoding.blocks->rotates ? blocks * Rotation::size : elements;
    return {payload_bits(format, sent), side.all, side.of_tensor};
}

}  // namespace apscope::detail
