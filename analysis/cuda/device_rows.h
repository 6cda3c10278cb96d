// A RowDevice on any device that has memory and runs steps: a GPU through CUDA's streams
// (emulation/cuda/machine/stream_queue.h), or the host with a loop, on which tests compare complete
// replays. An item is processed in pieces of complete blocks, so the memory that it needs does not
// depend on its size, but for 4 bytes of every block of sums that two phases encode in blocks;
// tasks that together need more for that than the limit run one half after the other. An item is
// processed twice if it has reductions in two phases that encode their sums (row_step.h). While the
// steps of a piece run, the host copies the values of the next one to the device and adds up the
// results of the one before.
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
#include <cstdint>
#include <deque>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/cuda/row_plan.h"
#include "analysis/cuda/shard_pieces.h"
#include "analysis/cuda/task_steps.h"

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
        if (tasks.size() > 1 && plan.sum_blocks() * sizeof(std::uint32_t) > memory_) {
            const std::size_t half = tasks.size() / 2;
            std::vector<RowTotals> all = run(gradients, divisor, noise, tasks.first(half));
            for (RowTotals& one : run(gradients, divisor, noise, tasks.subspan(half)))
                all.push_back(std::move(one));
            return all;
        }
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
                buffers.emplace(queue, plan, blocks, blocks < all_blocks, *parts);
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

        SumEncodings encodings;
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
        Memory<float> rounded, phase_sums, norms;
        Memory<double> factors;
        Memory<std::uint8_t> codes, scales;
        Memory<std::int16_t> exponents;
        Memory<std::uint32_t> amax_bits,  // RowPlan::amax_bits()
            sum_amax;                     // of the blocks of encoded sums of the item
        Memory<double> reference, sent, results, drawn, errors, slots;
        Memory<double> wide_values, wide_bias, wide_variance;
        Memory<BasisUse> in_use;
        Memory<LineSums> sums;
        Memory<BlockUseSums> uses;
        Memory<RatioProduct> ratios;
        Memory<DrawSums> draws;
        Memory<SumExtent> extents;  // of the item
        Memory<double> edges;       // of the parts of encoded sums

        Buffers(Queue& queue, const RowPlan& plan, std::uint64_t blocks, bool several,
                const ShardPieces& parts)
            : Buffers(queue, plan, blocks, several, parts, plan.sizes()) {}

    private:
        Buffers(Queue& queue, const RowPlan& plan, std::uint64_t blocks, bool several,
                const ShardPieces& parts, const RowPlan::Sizes& size)
            : instructions(queue.template allocate<HopInstruction>(plan.instructions().size())),
              reduced_rows(queue.template allocate<ReducedRow>(plan.rows().size())),
              inputs{Inputs(queue, size, blocks), Inputs(queue, size, several ? blocks : 0)},
              rounded(queue.template allocate<float>(blocks * size.row_floats)),
              phase_sums(queue.template allocate<float>(blocks * size.phase_sums)),
              norms(queue.template allocate<float>(blocks * size.norms)),
              factors(queue.template allocate<double>(blocks * size.scales)),
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
              slots(queue.template allocate<double>(blocks * size.slots)),
              wide_values(queue.template allocate<double>(blocks * size.wide)),
              wide_bias(queue.template allocate<double>(blocks * size.wide)),
              wide_variance(queue.template allocate<double>(blocks * size.wide)),
              in_use(queue.template allocate<BasisUse>(blocks * size.in_use)),
              sums(queue.template allocate<LineSums>(blocks * size.sums)),
              uses(queue.template allocate<BlockUseSums>(blocks * size.uses)),
              ratios(queue.template allocate<RatioProduct>(blocks * size.ratios)),
              draws(queue.template allocate<DrawSums>(blocks * size.draws)),
              extents(queue.template allocate<SumExtent>(plan.encoded_sums() * parts.extents())),
              edges(queue.template allocate<double>(plan.edged_sums() * parts.edges())) {}
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

    using Run = TaskSteps<Queue, Buffers, Inputs>;

    MakeQueue make_queue_;
    std::uint64_t memory_;
};

}  // namespace apscope::detail
