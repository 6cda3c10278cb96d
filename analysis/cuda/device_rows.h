// A RowDevice on any device that has memory and runs steps: a GPU through CUDA's streams
// (emulation/cuda/machine/stream_queue.h), or the host with a loop, on which tests compare complete
// replays. An item is processed in pieces of complete blocks, so the memory that it needs does not
// depend on its size; twice, if it has reductions in two phases that encode their sums
// (row_step.h). While the steps of a piece run, the host copies the values of the next one to the
// device and adds up the results of the one before.
//
// MakeQueue returns a queue with these functions, of which only those that wait keep the order of
// copies and steps among each other:
//
//      allocate<T>(n)           memory whose pointer is get(). A failure throws std::bad_alloc; the
//                               pieces then become smaller
//      copy(host, n, to)        starts a copy to the device; the host's values may change
//                               afterwards
//      launch(step)             starts a step, after the steps before it
//      read(from, n)            starts a copy back, after the steps so far; get() of what it
//                               returns waits and returns the values
//      work_waits_for_copies()  steps started from now on run after the copies so far
//      copies_wait_for_work()   copies started from now on run after the steps and allocations so
//                               far
//      finish()                 waits for everything
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/cuda/block_row_choice.h"
#include "analysis/cuda/row_plan.h"
#include "analysis/cuda/shard_pieces.h"
#include "emulation/cuda/allreduce/block_phase_step.h"
#include "emulation/cuda/allreduce/wire_choice.h"

namespace apscope::detail {

template <class MakeQueue>
class DeviceRows : public RowDevice {
public:
    // memory: the limit in bytes for an item's data on the device; the memory of one block is
    // always allowed.
    DeviceRows(MakeQueue make_queue, std::uint64_t memory, std::uint64_t min_values = 0)
        : RowDevice(min_values), make_queue_(std::move(make_queue)), memory_(memory) {}

    std::vector<RowTotals> run(std::span<const std::span<const float>> gradients, double divisor,
                               std::span<const double> noise,
                               std::span<const RowTask> tasks) override {
        const std::uint64_t elements = gradients[0].size();
        const RowPlan plan(tasks, static_cast<int>(gradients.size()), elements, divisor,
                           !noise.empty());
        std::vector<RowTotals> totals = plan.no_totals(elements);
        if (elements == 0 || tasks.empty()) return totals;
        Queue queue = make_queue_();
        const std::uint64_t all_blocks = (elements + sum_block - 1) / sum_block;
        std::uint64_t blocks = std::clamp(memory_ / plan.bytes(), std::uint64_t{1},
                                          std::min(all_blocks, most_piece_blocks));
        std::optional<ShardPieces> parts;
        std::optional<Buffers> buffers;
        while (!buffers) {
            try {
                parts.emplace(plan.encoded_sums() != 0 ? elements : 0, plan.workers(),
                              blocks * sum_block);
                buffers.emplace(queue, plan, blocks, blocks < all_blocks, parts->extents());
            } catch (const std::bad_alloc&) {
                if (blocks == 1) throw;
                blocks = (blocks + 1) / 2;
            }
        }
        const Finish finish{queue};  // before the memory is released, if something throws
        queue.copies_wait_for_work();
        queue.copy(plan.instructions().data(), plan.instructions().size(),
                   buffers->instructions.get());
        queue.copy(plan.rows().data(), plan.rows().size(), buffers->reduced_rows.get());
        queue.copy(plan.amax_bits().data(), plan.amax_bits().size(), buffers->amax_bits.get());
        Uploads uploads{queue, plan, gradients, noise, buffers->inputs, blocks * sum_block};

        Encodings encodings;
        if (plan.encoded_sums() != 0) {
            uploads.for_pieces(
                [&](const Piece& piece, const Inputs& inputs) {
                    for (std::size_t t = 0; t < tasks.size(); ++t)
                        Run(queue, *buffers, inputs, plan, t, piece).find_extents(*parts);
                },
                [] {});
            const auto found =
                queue.read(buffers->extents.get(), plan.encoded_sums() * parts->extents());
            encodings = plan.encodings(found.get(), *parts);
        }
        std::deque<Results> results;  // of the piece before, and of the last one
        uploads.for_pieces(
            [&](const Piece& piece, const Inputs& inputs) {
                queue.launch(ReferenceStep{inputs.rows.get(), piece, plan.workers(), divisor,
                                           buffers->reference.get()});
                for (std::size_t t = 0; t < tasks.size(); ++t)
                    Run(queue, *buffers, inputs, plan, t, piece).compare(*parts, encodings);
                results.emplace_back(queue, *buffers, plan, piece);
            },
            [&] {
                if (results.size() < 2) return;
                results.front().add_to(totals, plan);
                results.pop_front();
            });
        results.front().add_to(totals, plan);
        return totals;
    }

private:
    using Encodings = std::vector<std::vector<RowPlan::SumEncoding>>;
    using Queue = decltype(std::declval<MakeQueue&>()());
    template <class T>
    using Memory = decltype(std::declval<Queue&>().template allocate<T>(0));

    struct Finish {
        Queue& queue;
        ~Finish() { queue.finish(); }
    };

    struct Inputs {
        Memory<float> rows;
        Memory<double> noise;
        std::uint64_t first = ~std::uint64_t{0};  // that of the piece whose values are there

        Inputs(Queue& queue, const RowPlan::Sizes& size, std::uint64_t blocks)
            : rows(queue.template allocate<float>(blocks * size.row_floats)),
              noise(queue.template allocate<double>(blocks * size.noise)) {}
    };
    // Copies an item's pieces to the device in turn.
    struct Uploads {
        Queue& queue;
        const RowPlan& plan;
        std::span<const std::span<const float>> gradients;
        std::span<const double> noise;
        std::array<Inputs, 2>& inputs;
        std::uint64_t size;  // the elements of every piece but the last

        // Runs work(piece, inputs) for every piece, then after_copy() once the copy of the next one
        // has started.
        template <class Work, class AfterCopy>
        void for_pieces(const Work& work, const AfterCopy& after_copy) {
            queue.copies_wait_for_work();
            copy(piece_at(0), inputs[0]);
            std::size_t turn = 0;
            for (std::uint64_t first = 0; first < elements(); turn ^= 1) {
                const Piece piece = piece_at(first);
                queue.work_waits_for_copies();
                // The next piece overwrites the inputs of the steps so far, those of the piece
                // before.
                queue.copies_wait_for_work();
                work(piece, inputs[turn]);
                first += piece.count;
                if (first < elements()) copy(piece_at(first), inputs[turn ^ 1]);
                after_copy();
            }
        }

    private:
        std::uint64_t elements() const { return gradients[0].size(); }
        Piece piece_at(std::uint64_t first) const {
            return {elements(), first, std::min(size, elements() - first)};
        }
        void copy(const Piece& piece, Inputs& to) {
            if (std::exchange(to.first, piece.first) == piece.first) return;  // is there already
            for (std::size_t w = 0; w < gradients.size(); ++w) {
                queue.copy(gradients[w].data() + piece.first, piece.count,
                           to.rows.get() + w * piece.count);
            }
            if (plan.has_noise())
                queue.copy(noise.data() + piece.first / noise_block, noise_blocks_of(piece.count),
                           to.noise.get());
        }
    };

    struct Buffers {
        Memory<HopInstruction> instructions;
        Memory<ReducedRow> reduced_rows;
        std::array<Inputs, 2> inputs;  // of pieces in turn; the second only if there are several
        Memory<float> rounded, phase_sums, factors;
        Memory<std::uint8_t> codes, scales;
        Memory<std::int16_t> exponents;
        Memory<std::uint32_t> amax_bits,  // RowPlan::amax_bits()
            sum_amax;                     // of the blocks of encoded sums of the item
        Memory<double> reference, sent, results, drawn, errors;
        Memory<HopSlot> slots;
        Memory<LineSums> sums;
        Memory<BlockUseSums> uses;
        Memory<RatioProduct> ratios;
        Memory<DrawSums> draws;
        Memory<SumExtent> extents;  // of the item

        // of_sum: the number of extents of a sum in two phases.
        Buffers(Queue& queue, const RowPlan& plan, std::uint64_t blocks, bool several,
                std::uint64_t of_sum)
            : Buffers(queue, plan, blocks, several, of_sum, plan.sizes()) {}

    private:
        Buffers(Queue& queue, const RowPlan& plan, std::uint64_t blocks, bool several,
                std::uint64_t of_sum, const RowPlan::Sizes& size)
            : instructions(queue.template allocate<HopInstruction>(plan.instructions().size())),
              reduced_rows(queue.template allocate<ReducedRow>(plan.rows().size())),
              inputs{Inputs(queue, size, blocks), Inputs(queue, size, several ? blocks : 0)},
              rounded(queue.template allocate<float>(blocks * size.row_floats)),
              phase_sums(queue.template allocate<float>(blocks * size.phase_sums)),
              factors(queue.template allocate<float>(blocks * size.scales)),
              codes(queue.template allocate<std::uint8_t>(blocks * size.codes)),
              scales(queue.template allocate<std::uint8_t>(blocks * size.scales)),
              exponents(queue.template allocate<std::int16_t>(blocks * size.exponents)),
              amax_bits(queue.template allocate<std::uint32_t>(plan.amax_bits().size())),
              sum_amax(queue.template allocate<std::uint32_t>(plan.sum_blocks())),
              reference(queue.template allocate<double>(blocks * sum_block)),
              sent(queue.template allocate<double>(blocks * size.sent)),
              results(queue.template allocate<double>(blocks * size.results)),
              drawn(queue.template allocate<double>(blocks * size.drawn)),
              errors(queue.template allocate<double>(blocks * size.errors)),
              slots(queue.template allocate<HopSlot>(blocks * size.slots)),
              sums(queue.template allocate<LineSums>(blocks * size.sums)),
              uses(queue.template allocate<BlockUseSums>(blocks * size.uses)),
              ratios(queue.template allocate<RatioProduct>(blocks * size.ratios)),
              draws(queue.template allocate<DrawSums>(blocks * size.draws)),
              extents(queue.template allocate<SumExtent>(plan.encoded_sums() * of_sum)) {}
    };

    // The sums of a piece on their way to the host.
    struct Results {
        template <class T>
        using Landing =
            decltype(std::declval<Queue&>().read(std::declval<const T*>(), std::uint64_t{}));
        Landing<LineSums> rows;
        Landing<BlockUseSums> uses;
        Landing<RatioProduct> ratios;
        Landing<DrawSums> draws;
        std::uint64_t blocks;

        Results(Queue& queue, const Buffers& b, const RowPlan& plan, const Piece& piece)
            : rows(queue.read(b.sums.get(), plan.sizes().sums * piece.blocks())),
              uses(queue.read(b.uses.get(), plan.sizes().uses * piece.blocks())),
              ratios(queue.read(b.ratios.get(), plan.sizes().ratios * piece.blocks())),
              draws(queue.read(b.draws.get(), plan.sizes().draws * piece.blocks())),
              blocks(piece.blocks()) {}
        void add_to(std::vector<RowTotals>& totals, const RowPlan& plan) const {
            plan.add({rows.get(), uses.get(), ratios.get(), draws.get()}, blocks, totals);
        }
    };

    // One task on a piece.
    struct Run {
        Queue& queue;
        Buffers& b;
        const Inputs& inputs;
        const RowPlan& plan;
        const RowPlan::Task& task;
        const RowTask& intended;
        Piece piece;

        Run(Queue& q, Buffers& buffers, const Inputs& given, const RowPlan& p, std::size_t t,
            const Piece& of)
            : queue(q), b(buffers), inputs(given), plan(p), task(p.tasks()[t]),
              intended(p.intended(t)), piece(of) {}

        // encodings: those of the encoded sums (RowPlan::encodings()).
        void compare(const ShardPieces& parts, const Encodings& encodings) {
            LineSums* const sums = b.sums.get() + task.first_sum * piece.blocks();
            round(intended.keys[0], sums);
            double *const s = b.sent.get(), *const y = b.results.get();
            const std::uint64_t n = piece.count;
            const bool moments = intended.wants_moments;
            // In two phases, the exact sum is the result of the first row.
            const SentSums sent{intended.phases ? y : s, s + n, s + 2 * n,
                                moments ? s + 3 * n : nullptr, moments ? s + 4 * n : nullptr};
            const auto add_sent = [&](WorkerRange workers, const auto& messages) {
                queue.launch(SentStep<std::decay_t<decltype(messages)>>{
                    inputs.rows.get(), piece, plan.workers(), workers, messages, plan.divisor(),
                    sent});
            };
            if (intended.blocks) {
                add_sent({0, plan.workers()}, block_messages());
            } else {
                for_wires([&](WorkerRange workers, const auto& wires, const FloatScale& scale) {
                    add_sent(workers, messages_by(wires, scale));
                });
            }
            const std::uint64_t rows = task.row_count;
            const std::uint64_t closed = task.closed_forms;
            const ReducedResults results{y, closed != 0 ? y + rows * n : nullptr,
                                         closed != 0 ? y + (rows + closed) * n : nullptr};
            if (intended.phases) encode_sums(parts, encodings, y + n);
            else add_up(intended.keys[0], task.first_row, rows, sent, results);
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
                queue.launch(SumExtentStep{b.phase_sums.get() + part.first, part.count,
                                           extents + part.first_extent});
                const PhaseTask& phases = *intended.phases;
                if (phases.blocks)
                    queue.launch(
                        BlockAmaxStep{shard_sum(part), make_block_scaling(phases.blocks->format),
                                      static_cast<std::uint64_t>(phases.blocks->format.block_size),
                                      sum_amax(part)});
                if (phases.units)
                    queue.launch(BlockAmaxStep{shard_sum(part),
                                               make_unit_scaling(phases.units->shift),
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
            queue.launch(BlockWireStep{
                {sums}, inputs.rows.get(), piece, plan.workers(), messages, intended.wire_draws});
        }
        BlockMessages block_messages() const {
            return make_block_messages(*intended.blocks, piece.count, b.rounded.get(),
                                       b.codes.get(), b.scales.get(), b.factors.get(),
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
        void encode_sums(const ShardPieces& parts, const Encodings& encodings, double* out) {
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
                if (const auto& blocks = intended.phases->blocks) {
                    const BlockScaling scaling = make_block_scaling(blocks->format);
                    const std::uint32_t amax = bits_cast<std::uint32_t>(encoding.largest);
                    queue.launch(SumBlocksStep{
                        shard_sum(part),
                        make_block_rounding(blocks->format, blocks->projection,
                                            words_of(intended.keys[0], owner, blocks->projection)),
                        tensor_scale(scaling, &amax), sum_amax(part), plan.divisor(),
                        out + part.first});
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
            const auto launch = [&](const auto& adder) {
                const bool closed = results.bias != nullptr;
                with_common_wires([&](const auto& wires) {
                    queue.launch(
                        HopStep<std::decay_t<decltype(adder)>, std::decay_t<decltype(wires)>>{
                            b.rounded.get(), piece, plan.workers(), wires, plan.divisor(), adder,
                            b.reduced_rows.get() + first, count, b.instructions.get(),
                            b.slots.get(), closed ? sent.bias : nullptr,
                            closed ? sent.variance : nullptr, results});
                });
            };
            if (intended.step) launch(StepAdder{*intended.step});
            else launch(RuleAdder{intended.accumulator, key});
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
                                            squares,
                                            b.draws.get() + task.first_draw * piece.blocks()});
        }
    };

    MakeQueue make_queue_;
    std::uint64_t memory_;
};

}  // namespace apscope::detail
