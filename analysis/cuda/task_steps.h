// The steps that a GPU runs for one task of a replay on one piece of an item (row_step.h).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "analysis/cuda/block_row_choice.h"
#include "analysis/cuda/message_wire_step.h"
#include "analysis/cuda/rotated_step.h"
#include "analysis/cuda/row_plan.h"
#include "analysis/cuda/shard_pieces.h"
#include "analysis/cuda/uniform_step.h"
#include "emulation/cuda/allreduce/block_phase_step.h"
#include "emulation/cuda/allreduce/wire_choice.h"

namespace apscope::detail {

// Of the tasks in two phases whose sums are encoded, of every shard.
using SumEncodings = std::vector<std::vector<RowPlan::SumEncoding>>;

// The steps of one task on a piece. Queue, Buffers and Inputs: those of DeviceRows.
template <class Queue, class Buffers, class Inputs>
struct TaskSteps {
    Queue& queue;
    Buffers& b;
    const Inputs& inputs;
    const RowPlan& plan;
    const RowPlan::Task& task;
    const RowTask& intended;
    Piece piece;

    TaskSteps(Queue& q, Buffers& buffers, const Inputs& given, const RowPlan& p, std::size_t t,
              const Piece& of)
        : queue(q), b(buffers), inputs(given), plan(p), task(p.tasks()[t]), intended(p.intended(t)),
          piece(of) {}

    // encodings: those of the encoded sums (RowPlan::encodings()).
    void compare(const ShardPieces& parts, const SumEncodings& encodings) {
        LineSums* const sums = b.sums.get() + task.first_sum * piece.blocks();
        round(intended.keys[0], sums);
        double *const s = b.sent.get(), *const y = b.results.get();
        const std::uint64_t n = piece.count;
        const bool moments = intended.wants_moments;
        const std::uint64_t rows = task.row_count, closed = task.closed_forms;
        // The exact sum is the result of the first row, unless the hops add that.
        const bool exact_first = rows != 0 && (intended.phases || intended.is_wide());
        const SentSums sent{exact_first ? y : s, s + n, s + 2 * n, moments ? s + 3 * n : nullptr,
                            moments ? s + 4 * n : nullptr};
        const auto add_sent = [&](WorkerRange workers, const auto& messages) {
            queue.launch(SentStep<std::decay_t<decltype(messages)>>{
                inputs.rows.get(), piece, plan.workers(), workers, messages, plan.divisor(), sent});
        };
        if (intended.is_wide()) {
            add_sent({0, plan.workers()}, wide_messages());
        } else if (intended.blocks) {
            add_sent({0, plan.workers()}, block_messages());
        } else {
            for_wires([&](WorkerRange workers, const auto& wires, const FloatScale& scale) {
                add_sent(workers, messages_by(wires, scale));
            });
        }
        const ReducedResults results{y, closed != 0 ? y + rows * n : nullptr,
                                     closed != 0 ? y + (rows + closed) * n : nullptr};
        if (!exact_first) {
            add_up(intended.keys[0], task.first_row, rows, sent, results);
        } else {
            if (intended.phases) encode_sums(parts, encodings, y + n);
            else
                add_up(intended.keys[0], task.first_row + 1, rows - 1, {},
                       {y + n, nullptr, nullptr});
            if (closed != 0) queue.launch(ExactMomentsStep{sent, n, plan.divisor(), results});
        }
        with_common_wires([&](const auto& wires) {
            queue.launch(ReducedStep<std::decay_t<decltype(wires)>>{
                {sums + static_cast<std::uint64_t>(plan.workers()) * piece.blocks()},
                piece,
                b.reduced_rows.get() + task.first_row,
                rows,
                b.reference.get(),
                results,
                sent,
                wires,
                task.scale});
        });
        if (plan.has_noise()) {
            queue.launch(NoiseErrorStep{b.reference.get(), y, piece, rows, b.errors.get()});
            queue.launch(NoiseRatioStep{b.errors.get(), inputs.noise.get(), piece, rows,
                                        b.ratios.get() + task.first_ratio * piece.blocks()});
        }
        if (task.draws != 0) draw();
    }

    // Writes the extents of the sums of a task in two phases.
    void find_extents(const ShardPieces& parts) {
        if (!task.encoded_sum) return;
        round(intended.keys[0], nullptr);
        sum_messages();
        SumExtent* const extents = b.extents.get() + *task.encoded_sum * parts.extents();
        for (const ShardPiece& part : parts.of(piece.first)) {
            const PhaseTask& phases = *intended.phases;
            if (phases.uniform) {
                queue.launch(SumNormStep{{},
                                         shard_sum(part),
                                         part.ends,
                                         {phases.uniform->norm},
                                         phases.uniform->bucket,
                                         edges(part, parts),
                                         sum_norms(part)});
                continue;
            }
            if (phases.blocks && phases.blocks->rotates) {
                queue.launch(RotatedExtentStep{{shard_sum(part), part.ends, edges(part, parts)},
                                               extents + part.first_extent});
                continue;
            }
            if (phases.encoding || (phases.blocks && phases.blocks->format.tensor_scale))
                queue.launch(SumExtentStep{b.phase_sums.get() + part.first, part.count,
                                           extents + part.first_extent});
            if (phases.blocks)
                queue.launch(BlockAmaxStep{
                    shard_sum(part), make_block_scaling(phases.blocks->format),
                    static_cast<std::uint64_t>(phases.blocks->format.block_size), sum_amax(part)});
            if (phases.units)
                queue.launch(BlockAmaxStep{shard_sum(part), make_unit_scaling(phases.units->shift),
                                           phases.units->unit, sum_amax(part)});
        }
    }

private:
    // Calls f(rounding) with the rounding of a wire's numbers.
    template <class F>
    static void with_rounding_of(const WireTask& wire, const F& f) {
        with_wire_rounding(wire.narrow, wire.projection, wire.scale.cast,
                           [&]<int Size>(const auto& rounding) { f(rounding); });
    }

    // Calls f(workers, wires, limits) with the encodings of workers that share one; messages in
    // a block format are stored as they are.
    template <class F>
    void for_wires(const F& f) const {
        if (intended.units)
            return f(WorkerRange{0, plan.workers()}, piece_units(), intended.units->wire.scale);
        for (const RowPlan::Messages& m : task.messages)
            f(m.workers, OneWire{m.scale}, m.wire != nullptr ? m.wire->scale : FloatScale{});
    }
    // Calls f(wires) with the encoding that all workers share.
    template <class F>
    void with_common_wires(const F& f) const {
        if (intended.units) f(piece_units());
        else f(OneWire{task.messages[0].scale});
    }
    PieceUnits piece_units() const {
        const int bits = std::countr_zero(intended.units->unit);
        const std::uint64_t units = ((piece.count - 1) >> bits) + 1;
        return {b.exponents.get(), intended.units->agrees ? 0 : units, bits};
    }
    template <class Wires>
    FloatMessages<Wires> messages_by(const Wires& wires, const FloatScale& scale) const {
        return {b.rounded.get(), piece.count, wires, scale};
    }

    // Rounds the values of every worker; `sums` receives the lines of the messages, or is null.
    void round(PhiloxKey key, LineSums* sums) {
        if (intended.is_wide()) return round_wide(key, sums);
        if (intended.blocks) return round_blocks(key, sums);
        if (intended.units) return round_units(key, sums);
        for (const RowPlan::Messages& m : task.messages) {
            with_rounding_of(*m.wire, [&](const auto& rounding) {
                round_by(rounding, m.workers, OneWire{m.scale}, m.wire->scale, key, sums);
            });
        }
    }
    template <class Rounding, class Wires>
    void round_by(const Rounding& rounding, WorkerRange workers, const Wires& wires,
                  const FloatScale& scale, PhiloxKey key, LineSums* sums) {
        queue.launch(WireStep<Rounding, Wires>{{sums},
                                               inputs.rows.get(),
                                               piece,
                                               plan.workers(),
                                               workers,
                                               rounding,
                                               wires,
                                               scale,
                                               key,
                                               intended.wire_draws,
                                               b.rounded.get()});
    }
    void count_blocks(const auto& messages) {
        queue.launch(BlockUseStep<std::decay_t<decltype(messages)>>{
            inputs.rows.get(), piece, plan.workers(), messages,
            b.uses.get() + task.first_use * piece.blocks()});
    }

    // The same with a scale for each unit of elements.
    void round_units(PhiloxKey key, LineSums* sums) {
        const PieceUnits wires = piece_units();
        const FloatScale& scale = intended.units->wire.scale;
        queue.launch(UnitScaleStep{inputs.rows.get(), piece, plan.workers(),
                                   intended.units->agrees ? plan.workers() : 1,
                                   make_unit_scaling(intended.units->shift), wires});
        with_wire_rounding(intended.units->of_fp32, intended.units->wire.projection, scale.cast,
                           [&]<int Size>(const auto& rounding) {
                               round_by(rounding, {0, plan.workers()}, wires, scale, key, sums);
                           });
        if (sums != nullptr) count_blocks(messages_by(wires, scale));
    }

    // The same for messages in blocks. Workers whose blocks have neither random words nor a
    // tensor scale are the rows of one array.
    void round_blocks(PhiloxKey key, LineSums* sums) {
        const BlockFormat& format = intended.blocks->format;
        const Projection& projection = intended.blocks->projection;
        const std::uint64_t n = piece.count, all = static_cast<std::uint64_t>(plan.workers());
        const bool apart = is_stochastic(projection.rounding) || format.tensor_scale;
        const BlockShape shape{apart ? 1 : all, n, 1};
        const BlockMessages messages = block_messages();
        for (std::uint64_t w = 0; w < all; w += shape.outer) {
            with_encode_blocks(inputs.rows.get() + w * n, b.rounded.get() + w * n,
                               sums != nullptr ? b.codes.get() + w * n : nullptr,
                               sums != nullptr ? b.scales.get() + w * messages.blocks : nullptr,
                               shape, format, projection,
                               {words_of(key, w, projection), piece.first},
                               messages.amax_bits + (format.tensor_scale ? w : 0),
                               [&](const auto& step) { queue.launch(step); });
        }
        if (sums == nullptr) return;
        count_blocks(messages);
        queue.launch(MessageWireStep<BlockMessages>{
            {sums}, inputs.rows.get(), piece, plan.workers(), messages, intended.wire_draws});
    }
    // The same for messages whose decoded values are fp64 numbers. In two phases, elements that are
    // not finite do not count in the sums.
    void round_wide(PhiloxKey key, LineSums* sums) {
        const bool keeps_special = !intended.phases;
        const WideMessages messages = sums != nullptr ? wide_messages() : WideMessages{};
        if (const auto& uniform = intended.uniform) {
            const std::uint64_t bucket = uniform->bucket;
            queue.launch(UniformNormStep{{},
                                         inputs.rows.get(),
                                         piece,
                                         plan.workers(),
                                         {uniform->norm},
                                         bucket,
                                         b.norms.get()});
            queue.launch(UniformWireStep{inputs.rows.get(), piece, plan.workers(),
                                         uniform_rounding(*uniform, key, 0), bucket, b.norms.get(),
                                         keeps_special, messages, b.rounded.get()});
        } else {
            const BlockTask& blocks = *intended.blocks;
            queue.launch(RotatedWireStep{
                inputs.rows.get(), piece, plan.workers(),
                make_block_moments(blocks, words_of(key, 0, blocks.projection)), limits_of(blocks),
                b.amax_bits.get() + task.first_amax, key, keeps_special, messages, b.rounded.get(),
                sums != nullptr ? b.uses.get() + task.first_use * piece.blocks() : nullptr,
                b.in_use.get()});
        }
        if (sums == nullptr) return;
        queue.launch(WideWireStep{
            {{sums}, inputs.rows.get(), piece, plan.workers(), messages, intended.wire_draws},
            intended.blocks ? b.in_use.get() : nullptr});
    }
    WideMessages wide_messages() const {
        return {b.wide_values.get(), b.wide_bias.get(), b.wide_variance.get(), piece.count,
                intended.blocks ? limits_of(*intended.blocks) : FloatScale{}};
    }
    static UniformRounding uniform_rounding(const UniformGrid& grid, PhiloxKey key,
                                            std::uint64_t worker) {
        return {static_cast<double>(grid.levels),
                std::ldexp(1.0, grid.random_bits),
                {key, static_cast<std::uint32_t>(worker), stage_and_hop(Stage::wire, 0),
                 grid.random_bits}};
    }
    BlockMessages block_messages() const {
        return make_block_messages(*intended.blocks, piece.count, b.rounded.get(), b.codes.get(),
                                   b.scales.get(), b.factors.get(),
                                   b.amax_bits.get() + task.first_amax);
    }
    // The random words of a worker's messages.
    static RandomStream words_of(PhiloxKey key, std::uint64_t worker, const Projection& p) {
        return {key, static_cast<std::uint32_t>(worker), stage_and_hop(Stage::wire, 0),
                p.random_bits};
    }
    ShardSum shard_sum(const ShardPiece& part) const {
        return {b.phase_sums.get() + part.first, part.count, part.in_shard};
    }
    double* edges(const ShardPiece& part, const ShardPieces& parts) const {
        return b.edges.get() + task.edge * parts.edges() + ShardPieces::edges_before(part);
    }
    float* sum_norms(const ShardPiece& part) const {
        return reinterpret_cast<float*>(sum_amax(part));
    }
    std::uint32_t* sum_amax(const ShardPiece& part) const {
        return b.sum_amax.get() + task.first_sum_block + part.shard * task.blocks_of_shard;
    }

    // Adds the rounded values in fp32.
    void sum_messages() {
        for_wires([&](WorkerRange workers, const auto& wires, const FloatScale&) {
            queue.launch(PhaseSumStep<std::decay_t<decltype(wires)>>{
                b.rounded.get(), piece.count, workers, wires, b.phase_sums.get()});
        });
    }

    // The sums of two phases, encoded by the owners of the shards if they are encoded.
    void encode_sums(const ShardPieces& parts, const SumEncodings& encodings, double* out) {
        sum_messages();
        const float* const sums = b.phase_sums.get();
        if (!task.encoded_sum) {
            queue.launch(SumEncodingStep<NoRounding, double>{
                sums, piece.count, 0, {}, {}, plan.divisor(), out});
            return;
        }
        for (const ShardPiece& part : parts.of(piece.first)) {
            const RowPlan::SumEncoding& encoding = encodings[*task.encoded_sum][part.shard];
            const std::uint64_t owner = static_cast<std::uint64_t>(plan.workers()) + part.shard;
            if (const auto& uniform = intended.phases->uniform) {
                queue.launch(UniformSumStep{
                    shard_sum(part), uniform_rounding(*uniform, intended.keys[0], owner),
                    uniform->bucket, sum_norms(part), plan.divisor(), out + part.first});
                continue;
            }
            if (const auto& blocks = intended.phases->blocks) {
                const BlockScaling scaling = make_block_scaling(blocks->format);
                const std::uint32_t amax = bits_cast<std::uint32_t>(encoding.largest);
                const BlockRounding rounding =
                    make_block_rounding(blocks->format, blocks->projection,
                                        words_of(intended.keys[0], owner, blocks->projection));
                const TensorScale tensor = tensor_scale(scaling, &amax);
                if (blocks->rotates)
                    queue.launch(RotatedSumStep{{shard_sum(part), part.ends, edges(part, parts)},
                                                rounding,
                                                tensor,
                                                plan.divisor(),
                                                out + part.first});
                else
                    queue.launch(SumBlocksStep{shard_sum(part), rounding, tensor, sum_amax(part),
                                               plan.divisor(), out + part.first});
                continue;
            }
            const auto encode = [&](auto rounding, int random_bits, const auto& wires) {
                set_worker(rounding, intended.keys[0], owner, random_bits);
                queue.launch(
                    SumEncodingStep<decltype(rounding), double, std::decay_t<decltype(wires)>>{
                        sums + part.first, part.count, part.in_shard, rounding, wires,
                        plan.divisor(), out + part.first});
            };
            if (const auto& units = intended.phases->units) {
                encode(RuleRounding<double>{units->wire.scale.cast, {}},
                       units->wire.scale.cast.random_bits,
                       UnitWires{sum_amax(part), make_unit_scaling(units->shift),
                                 std::countr_zero(units->unit)});
                continue;
            }
            with_rounding_of(*encoding.wire, [&](const auto& rounding) {
                encode(rounding, encoding.wire->scale.cast.random_bits,
                       OneWire{wire_scale_of(*encoding.wire)});
            });
        }
    }

    // Runs the hops of `count` rows from `first` on.
    void add_up(PhiloxKey key, std::uint64_t first, std::uint64_t count, const SentSums& sent,
                const ReducedResults& results) {
        const auto launch = [&](const auto& sum) {
            const bool closed = results.bias != nullptr;
            with_common_wires([&](const auto& wires) {
                queue.launch(HopStep<std::decay_t<decltype(sum)>, std::decay_t<decltype(wires)>>{
                    b.rounded.get(), piece, plan.workers(), wires, plan.divisor(), sum,
                    b.reduced_rows.get() + first, count, b.instructions.get(), b.slots.get(),
                    closed ? sent.bias : nullptr, closed ? sent.variance : nullptr, results});
            });
        };
        if (intended.step) launch(FloatSum<StepRounding>{{*intended.step}, 0});
        else if (rounds_by_quanta(intended.accumulator) && odd_suffices(intended.accumulator))
            launch(QuantaSum{intended.accumulator, key});
        else launch(RuleSum{intended.accumulator, key});
    }

    void draw() {
        double* const values = b.drawn.get();
        const std::uint64_t n = piece.count, rows = task.sampled_count, draws = task.draws;
        for (std::uint64_t d = 0; d < draws; ++d) {
            round(intended.keys[d], nullptr);
            add_up(intended.keys[d], task.first_row + task.row_count, rows, {},
                   {values + d * rows * n, nullptr, nullptr});
        }
        double *const sums = values + draws * rows * n, *const squares = sums + rows * n;
        queue.launch(DrawSpreadStep{values, n, rows, draws, sums, squares});
        queue.launch(DrawStatisticsStep{values, piece, rows, draws, b.reference.get(), sums,
                                        squares, b.draws.get() + task.first_draw * piece.blocks()});
    }
};

}  // namespace apscope::detail
