#include "analysis/cuda/row_plan.h"

#include <algorithm>

namespace apscope::detail {

namespace {

// The programs of topologies; each is stored once.
class Programs {
public:
    Programs(int workers, std::vector<HopInstruction>& out) : workers_(workers), out_(out) {}

    struct Written {
        Topology topology;
        bool in_order;  // see hop_program()
        ReducedRow row;
        int slots;  // with a number for every element
    };
    const Written& of(const Topology& topology, bool in_order) {
        const auto known = std::find_if(written_.begin(), written_.end(), [&](const Written& w) {
            return w.topology == topology && w.in_order == in_order;
        });
        if (known != written_.end()) return *known;
        const HopProgram program = hop_program(topology, workers_, in_order);
        const ReducedRow row{topology.kind == Topology::Kind::gather ? ReducedRow::Kind::gather
                                                                     : ReducedRow::Kind::hops,
                             topology.kind == Topology::Kind::ring,
                             topology.kahan,
                             0,
                             out_.size(),
                             static_cast<std::int32_t>(program.instructions.size()),
                             program.result,
                             0};
        out_.insert(out_.end(), program.instructions.begin(), program.instructions.end());
        return written_.emplace_back(topology, in_order, row,
                                     topology.kahan ? 2 * program.slots : program.slots);
    }

private:
    int workers_;
    std::vector<HopInstruction>& out_;
    std::vector<Written> written_;
};

void add_block(ErrorStatistics& s, const LineSums& block) {
    add_totals(s, block.totals);
    for (std::size_t k = 0; k < s.split.sums.size(); ++k) s.split.sums[k] += block.split[k];
}

// The elements of a sum for which the device stores an amax or a norm; 0 if there are none.
std::uint64_t block_of_sums(const PhaseTask& phases) {
    if (phases.units) return phases.units->unit;
    if (phases.uniform) return phases.uniform->bucket;
    if (!phases.blocks || phases.blocks->rotates) return 0;
    return static_cast<std::uint64_t>(phases.blocks->format.block_size);
}

BlockUse use_of(const BlockUseSums& sums) {
    BlockUse use;
    use.blocks = sums.blocks;
    use.saturated = sums.saturated;
    use.range_sum = sums.range_sum;
    use.range_max = sums.range_max;
    use.scale_min = sums.scale_min;
    use.scale_max = sums.scale_max;
    return use;
}

}  // namespace

RowPlan::RowPlan(std::span<const RowTask> tasks, int workers, std::uint64_t elements,
                 double divisor, bool has_noise)
    : tasks_(tasks), workers_(workers), divisor_(divisor), has_noise_(has_noise) {
    Programs programs(workers, instructions_);
    const auto w = static_cast<std::uint64_t>(workers);
    sizes_.row_floats = w * sum_block;
    if (has_noise) sizes_.noise = noise_blocks_a_sum;
    for (const RowTask& task : tasks) {
        Task plan{{}, {}, rows_.size()};
        if (task.blocks || task.units) {
            plan.first_use = sizes_.uses;
            sizes_.uses += w;
        }
        if (task.blocks) {  // their results have no errors in units in the last place
            const auto size = static_cast<std::uint64_t>(task.blocks->format.block_size);
            plan.messages.push_back({{0, workers}, {}, nullptr});
            plan.first_amax = amax_bits_.size();
            for (const float amax : task.blocks->amax)
                amax_bits_.push_back(bits_cast<std::uint32_t>(amax));
            if (task.blocks->rotates) {
                sizes_.in_use = w;
            } else {
                sizes_.codes = w * sum_block;
                sizes_.scales = std::max(sizes_.scales, w * (sum_block / size));
            }
        } else if (task.uniform) {
            plan.messages.push_back({{0, workers}, {}, nullptr});
            sizes_.norms = std::max(sizes_.norms, w * (sum_block / task.uniform->bucket));
        } else if (task.units) {
            plan.scale = task.units->wire.scale;
            sizes_.exponents = std::max(sizes_.exponents, w * (sum_block / task.units->unit));
        }
        if (task.is_wide()) sizes_.wide = w * sum_block;
        if (!task.wires.empty()) plan.scale = task.wires[0].scale;
        plan.scale.units = divisor;
        for (const WireTask& wire : task.wires) {
            const int sharing = workers / static_cast<int>(task.wires.size());
            const int first = plan.messages.empty() ? 0 : plan.messages.back().workers.last;
            if (first != 0 && plan.messages.back().wire->scale.scale == wire.scale.scale)
                plan.messages.back().workers.last += sharing;
            else plan.messages.push_back({{first, first + sharing}, wire_scale_of(wire), &wire});
        }
        if (task.phases) {  // its rows have no errors in units in the last place
            sizes_.phase_sums = sum_block;
            if (task.phases->encodes()) plan.encoded_sum = encoded_sums_++;
            if (const std::uint64_t size = block_of_sums(*task.phases)) {
                plan.first_sum_block = sum_blocks_;
                plan.blocks_of_shard = ((elements + w - 1) / w + size - 1) / size;
                sum_blocks_ += w * plan.blocks_of_shard;
            }
            const bool rotates = task.phases->blocks && task.phases->blocks->rotates;
            if (rotates || task.phases->uniform) plan.edge = edged_sums_++;
        }
        std::vector<ReducedRow> sampled;
        int slots = 0;
        for (const RowTask::Reduced& reduced : task.reduced) {
            ReducedRow row{};
            if (reduced.exact) {
                row.kind = ReducedRow::Kind::exact;
            } else if (!task.phases) {
                const Programs::Written& written =
                    programs.of(reduced.topology, reduced.closed_form && !task.step);
                row = written.row;
                row.first_slot = slots;
                slots += written.slots;
            }
            row.closed_form =
                reduced.closed_form ? static_cast<std::int32_t>(plan.closed_forms++) : -1;
            rows_.push_back(row);
            if (reduced.sampled && task.keys.size() > 1) sampled.push_back(row);
        }
        plan.row_count = task.reduced.size();
        plan.sampled_count = sampled.size();
        plan.draws = sampled.empty() ? 0 : task.keys.size();
        rows_.insert(rows_.end(), sampled.begin(), sampled.end());

        plan.first_sum = sizes_.sums;
        sizes_.sums += w + plan.row_count;
        plan.first_draw = sizes_.draws;
        sizes_.draws += plan.draws * plan.sampled_count;
        plan.first_ratio = sizes_.ratios;
        if (has_noise) {
            sizes_.ratios += plan.row_count;
            sizes_.errors = std::max(sizes_.errors, noise_blocks_a_sum * plan.row_count);
        }
        if (task.wants_moments) sizes_.sent = 5 * sum_block;
        sizes_.results =
            std::max(sizes_.results, (plan.row_count + 2 * plan.closed_forms) * sum_block);
        if (plan.draws != 0)
            sizes_.drawn =
                std::max(sizes_.drawn, (plan.draws + 2) * plan.sampled_count * sum_block);
        sizes_.slots = std::max(sizes_.slots, static_cast<std::uint64_t>(slots) * sum_block);
        plans_.push_back(plan);
    }
}

std::uint64_t RowPlan::bytes() const {
    const Sizes& s = sizes_;
    const std::uint64_t doubles =
        sum_block + s.sent + s.results + s.drawn + 2 * s.noise + s.errors + s.slots + 3 * s.wide;
    return s.exponents * sizeof(std::int16_t) +
           (3 * s.row_floats + s.phase_sums + s.norms) * sizeof(float) + s.scales * sizeof(double) +
           s.codes + s.scales + doubles * sizeof(double) + s.in_use * sizeof(BasisUse) +
           s.uses * sizeof(BlockUseSums) + encoded_sums_ * sizeof(SumExtent) +
           s.sums * sizeof(LineSums) + s.ratios * sizeof(RatioProduct) + s.draws * sizeof(DrawSums);
}

std::vector<std::vector<RowPlan::SumEncoding>> RowPlan::encodings(
    std::span<const SumExtent> extents, const ShardPieces& parts) const {
    struct Sum {
        float largest = 0.0f;
        std::uint64_t nonfinite = 0, elements = 0;
    };
    std::vector<std::vector<SumEncoding>> all;
    for (const RowTask& task : tasks_) {
        if (!task.phases || !task.phases->encodes()) continue;
        std::vector<Sum> sums(static_cast<std::size_t>(workers_));
        for (const std::vector<ShardPiece>& piece : parts.pieces()) {
            for (const ShardPiece& part : piece) {
                Sum& sum = sums[part.shard];
                sum.elements += part.count;
                for (std::uint64_t e = part.first_extent; e < part.end_extent; ++e) {
                    sum.largest = std::max(sum.largest, extents[e].largest);
                    sum.nonfinite += extents[e].nonfinite;
                }
            }
        }
        extents = extents.subspan(parts.extents());
        std::vector<SumEncoding>& of_task = all.emplace_back();
        for (const Sum& sum : sums) {
            SumEncoding& encoding = of_task.emplace_back(SumEncoding{{}, sum.largest});
            if (task.phases->encoding)
                encoding.wire = task.phases->encoding(sum.largest, sum.nonfinite, sum.elements);
        }
    }
    return all;
}

std::vector<RowTotals> RowPlan::no_totals(std::uint64_t elements) const {
    std::vector<RowTotals> totals(tasks_.size());
    for (std::size_t t = 0; t < totals.size(); ++t) {
        totals[t].wire.resize(static_cast<std::size_t>(workers_));
        if (tasks_[t].blocks || tasks_[t].units) totals[t].blocks.resize(totals[t].wire.size());
        totals[t].reduced.resize(tasks_[t].reduced.size());
        for (ErrorStatistics& s : totals[t].wire) s.count = elements;
        for (std::size_t r = 0; r < totals[t].reduced.size(); ++r) {
            RowTotals::Reduced& reduced = totals[t].reduced[r];
            reduced.statistics.count = elements;
            if (plans_[t].draws == 0 || !tasks_[t].reduced[r].sampled) continue;
            reduced.draw_error.assign(plans_[t].draws, 0.0);
            reduced.left_out.assign(plans_[t].draws, 0.0);
        }
    }
    return totals;
}

void RowPlan::add(const PieceSums& sums, std::uint64_t blocks,
                  std::vector<RowTotals>& totals) const {
    const auto w = static_cast<std::uint64_t>(workers_);
    for (std::size_t t = 0; t < totals.size(); ++t) {
        const Task& plan = plans_[t];
        const LineSums *sent = sums.rows.data() + plan.first_sum * blocks,
                       *results = sent + w * blocks;
        const BlockUseSums* uses = sums.uses.data() + plan.first_use * blocks;
        const RatioProduct* ratios = sums.ratios.data() + plan.first_ratio * blocks;
        const DrawSums* draws = sums.draws.data() + plan.first_draw * blocks;
        for (std::uint64_t b = 0; b < blocks; ++b) {
            for (std::uint64_t worker = 0; worker < w; ++worker)
                add_block(totals[t].wire[worker], *sent++);
            for (BlockUse& of_worker : totals[t].blocks) {
                int &least = totals[t].least_exponent, &largest = totals[t].largest_exponent;
                least = std::min(least, uses->factor_min);
                largest = std::max(largest, uses->factor_max);
                of_worker.merge(use_of(*uses++));
            }
            for (RowTotals::Reduced& row : totals[t].reduced) {
                add_block(row.statistics, *results++);
                if (has_noise_) row.statistics.over_noise.add(*ratios++);
                if (row.draw_error.empty()) continue;
                row.variance_sum += draws->variance;
                for (std::uint64_t d = 0; d < plan.draws; ++d, ++draws) {
                    row.draw_error[d] += draws->error;
                    row.left_out[d] += draws->left_out;
                }
            }
        }
        for (const ErrorStatistics& worker : totals[t].wire)
            totals[t].wire_moments_defined =
                totals[t].wire_moments_defined && worker.moments_defined;
    }
}

}  // namespace apscope::detail
