// A RowDevice on any device that has memory and runs steps: a GPU through CUDA's streams
// (replay.cu), or the host with a loop, on which tests compare complete replays. An item is
// processed in pieces of complete blocks, so the memory that it needs does not depend on its size.
//
// MakeQueue returns a queue with these functions: allocate<T>(n) returns memory whose pointer is
// get(), copy(host, n, to) copies into it, launch(step) starts a step, and read(from, n) waits and
// returns values. Failed allocations throw std::bad_alloc; the pieces then become smaller.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/cuda/row_plan.h"
#include "emulation/cuda/cast/step_choice.h"

namespace apscope::detail {

template <class MakeQueue>
class DeviceRows : public RowDevice {
public:
    // memory: the limit in bytes for an item's data on the device; the memory of one block is
    // always allowed.
    DeviceRows(MakeQueue make_queue, std::uint64_t memory)
        : make_queue_(std::move(make_queue)), memory_(memory) {}

    std::vector<RowTotals> run(std::span<const std::span<const float>> gradients, double divisor,
                               std::span<const double> noise,
                               std::span<const RowTask> tasks) override {
        const RowPlan plan(tasks, static_cast<int>(gradients.size()), divisor, !noise.empty());
        const std::uint64_t elements = gradients[0].size();
        std::vector<RowTotals> totals = plan.no_totals(elements);
        if (elements == 0 || tasks.empty()) return totals;
        Queue queue = make_queue_();
        const std::uint64_t all_blocks = (elements + sum_block - 1) / sum_block;
        std::uint64_t blocks = std::clamp(memory_ / plan.bytes(), std::uint64_t{1}, all_blocks);
        std::optional<Buffers> buffers;
        while (!buffers) {
            try {
                buffers.emplace(queue, plan, blocks);
            } catch (const std::bad_alloc&) {
                if (blocks == 1) throw;
                blocks = (blocks + 1) / 2;
            }
        }
        for (std::uint64_t first = 0; first < elements; first += blocks * sum_block) {
            const Piece piece{elements, first, std::min(blocks * sum_block, elements - first)};
            for (std::size_t w = 0; w < gradients.size(); ++w) {
                queue.copy(gradients[w].data() + first, piece.count,
                           buffers->rows.get() + w * piece.count);
            }
            if (plan.has_noise())
                queue.copy(noise.data() + first / noise_block, noise_blocks_of(piece.count),
                           buffers->noise.get());
            queue.launch(ReferenceStep{buffers->rows.get(), piece, plan.workers(), divisor,
                                       buffers->reference.get()});
            for (std::size_t t = 0; t < tasks.size(); ++t)
                run_task(queue, *buffers, plan, t, piece);
            plan.add(queue.read(buffers->results.get(), plan.result_doubles() * piece.blocks()),
                     piece.blocks(), totals);
        }
        return totals;
    }

private:
    using Queue = decltype(std::declval<MakeQueue&>()());
    template <class T>
    using Memory = decltype(std::declval<Queue&>().template allocate<T>(0));

    struct Buffers {
        Memory<HopInstruction> instructions;
        Memory<ReducedRow> reduced_rows;
        Memory<float> rows, rounded;
        Memory<double> reference, split, moments, lanes, draws, results, noise, squares, errors;
        Memory<HopSlot> slots;

        Buffers(Queue& queue, const RowPlan& plan, std::uint64_t blocks)
            : instructions(queue.template allocate<HopInstruction>(plan.instructions().size())),
              reduced_rows(queue.template allocate<ReducedRow>(plan.rows().size())),
              rows(queue.template allocate<float>(blocks * plan.row_floats())),
              rounded(queue.template allocate<float>(blocks * plan.row_floats())),
              reference(queue.template allocate<double>(blocks * sum_block)),
              split(queue.template allocate<double>(blocks * plan.split_doubles())),
              moments(queue.template allocate<double>(blocks * plan.moment_doubles())),
              lanes(queue.template allocate<double>(blocks * plan.lane_doubles())),
              draws(queue.template allocate<double>(blocks * plan.draw_doubles())),
              results(queue.template allocate<double>(blocks * plan.result_doubles())),
              noise(queue.template allocate<double>(blocks * plan.noise_doubles())),
              squares(queue.template allocate<double>(blocks * plan.square_doubles())),
              errors(queue.template allocate<double>(blocks * plan.error_doubles())),
              slots(queue.template allocate<HopSlot>(blocks * plan.slots())) {
            queue.copy(plan.instructions().data(), plan.instructions().size(), instructions.get());
            queue.copy(plan.rows().data(), plan.rows().size(), reduced_rows.get());
        }
    };

    static void run_task(Queue& queue, Buffers& b, const RowPlan& plan, std::size_t t,
                         const Piece& piece) {
        const RowTask& intended = plan.intended(t);
        const auto with_adder = [&](const auto& rounding) {
            if (intended.step)
                return run_steps(queue, b, plan, t, piece, rounding,
                                 [&](PhiloxKey) { return StepAdder{*intended.step}; });
            run_steps(queue, b, plan, t, piece, rounding,
                      [&](PhiloxKey key) { return RuleAdder{intended.accumulator, key}; });
        };
        if (intended.narrow) {
            return with_rounding<float>(
                *intended.narrow, intended.projection, 0,
                [&]<int Size, class Rounding>(const Rounding& rounding) { with_adder(rounding); });
        }
        with_adder(RuleRounding<double>{intended.wire.cast, {}});
    }

    // make_adder(key) returns the object whose add() adds two partial sums; `key` is the Philox key
    // of one random draw.
    template <class Rounding, class MakeAdder>
    static void run_steps(Queue& queue, Buffers& b, const RowPlan& plan, std::size_t t,
                          const Piece& piece, const Rounding& rounding,
                          const MakeAdder& make_adder) {
        using Adder = decltype(make_adder(PhiloxKey{}));
        const RowPlan::Task& task = plan.tasks()[t];
        const RowTask& intended = plan.intended(t);
        const int workers = plan.workers();
        const std::uint64_t places = piece.places(), row_places = task.all_rows(workers) * places;
        WireStep<Rounding> wire{b.rows.get(),
                                piece,
                                workers,
                                rounding,
                                task.cast,
                                intended.keys[0],
                                intended.wire_draws,
                                b.rounded.get(),
                                b.lanes.get(),
                                row_places};
        queue.launch(wire);
        double *bias = b.moments.get(), *variance = bias + piece.count;
        if (intended.wants_moments)
            queue.launch(MomentsStep{b.rows.get(), b.rounded.get(), piece, workers, task.cast, bias,
                                     variance});
        double* const exact = b.split.get();
        const SplitRows split{exact, exact + piece.count, exact + 2 * piece.count};
        queue.launch(SplitStep{b.rows.get(), b.rounded.get(), piece, workers, task.cast,
                               plan.divisor(), split});
        const Reducer<Adder> reducer{b.rounded.get(),
                                     piece,
                                     workers,
                                     task.cast,
                                     plan.divisor(),
                                     make_adder(intended.keys[0]),
                                     b.reduced_rows.get() + task.first_row,
                                     b.instructions.get(),
                                     b.slots.get(),
                                     task.row_count * places};
        queue.launch(ReducedStep<Adder>{
            reducer, task.row_count, b.reference.get(), bias, variance, split, task.scale,
            b.lanes.get() + static_cast<std::uint64_t>(workers) * places, row_places,
            plan.has_noise() ? b.squares.get() : nullptr});
        double* results = b.results.get() + task.first_quantity * piece.blocks();
        queue.launch(JoinStep{b.lanes.get(), results, RowQuantities::size,
                              task.all_rows(workers) * piece.blocks(), RowQuantities::max_ulp});
        if (plan.has_noise()) {
            queue.launch(NoiseErrorStep{b.squares.get(), piece, task.row_count, b.errors.get()});
            queue.launch(
                NoiseRatioStep{b.errors.get(), b.noise.get(), piece, task.row_count,
                               results + (task.row_quantities(workers) + task.draw_quantities()) *
                                             piece.blocks()});
        }
        if (task.draws == 0) return;

        wire.lanes = nullptr;
        Reducer<Adder> drawn = reducer;
        drawn.rows += task.row_count;
        for (std::uint64_t d = 0; d < task.draws; ++d) {
            wire.key = intended.keys[d];
            drawn.adder = make_adder(intended.keys[d]);
            queue.launch(wire);
            queue.launch(DrawStep<Adder>{drawn, task.sampled_count, b.draws.get() + d * piece.count,
                                         task.draws * piece.count});
        }
        const std::uint64_t quantities = 2 * task.draws + 1;
        queue.launch(DrawStatisticsStep{b.draws.get(), piece, task.sampled_count,
                                        static_cast<int>(task.draws), b.reference.get(),
                                        b.lanes.get(), task.sampled_count * places});
        queue.launch(JoinStep{b.lanes.get(),
                              results + task.row_quantities(workers) * piece.blocks(), quantities,
                              task.sampled_count * piece.blocks(), quantities});
    }

    MakeQueue make_queue_;
    std::uint64_t memory_;
};

}  // namespace apscope::detail
