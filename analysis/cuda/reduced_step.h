// The reduced rows of a replay on a GPU (row_step.h): the hops of the topologies, then the
// comparison of their results with the reference. The hops are a step of their own, in which a
// thread reads an instruction, and draws a block of random words, once for neighbouring elements.
#pragma once

#include <cstdint>

#include "analysis/cuda/row_step.h"
#include "emulation/cuda/allreduce/hop_program.h"
#include "emulation/cuda/cast/element_group.h"
#include "emulation/cuda/cast/nan_bits.h"

namespace apscope::detail {

// A reduced row: the way in which the workers' codes become a result.
struct ReducedRow {
    enum class Kind : std::int32_t { exact, gather, hops };
    Kind kind;
    std::int32_t ring, kahan;
    std::int32_t
        closed_form;  // the row's number among those whose moments have a closed form, or -1
    std::uint64_t first_instruction;
    std::int32_t instructions, result;
    std::int32_t first_slot;  // of the task's slots, which have a number for every element
};

// The results of reduced rows; row r begins at r * piece.count. The bias and the variance, of
// messages and hops together, are those of the rows with a closed form; row number c of these
// begins at c * piece.count. The sign bit of the variance is set if the moments are not defined.
struct ReducedResults {
    double *values, *bias, *variance;
};

// Runs the hops. A group of 32 threads, a warp, processes consecutive elements of a row, and
// successive groups process other rows of the same elements, which are then in a cache. Sum:
// FloatSum, which adds stored numbers, QuantaSum or RuleSum (group_sum.h). Wires: see WireStep.
//
// A group of elements that spans several chunks of a ring is reduced once for each of them.
template <class Sum, class Wires>
struct HopStep {
    using Number = typename Sum::Number;
    static constexpr bool adds_stored = sizeof(Number) == sizeof(float);
    static constexpr int warp = 32, run = adds_stored ? 8 : 4;  // threads, elements of a thread

    const float* rounded;
    Piece piece;
    int workers;
    Wires wires;  // common to the workers
    double divisor;
    Sum sum;
    const ReducedRow* rows;
    std::uint64_t row_count;
    const HopInstruction* instructions;
    double* slots;
    const double *wire_bias, *wire_variance;  // null if no row has a closed form
    ReducedResults out;

    APSCOPE_HD static std::uint64_t threads(std::uint64_t elements) {
        return (elements + warp * run - 1) / (warp * run) * warp;
    }
    APSCOPE_HD std::uint64_t count() const { return row_count * threads(piece.count); }
    APSCOPE_HD void operator()(std::uint64_t item) const {
        const std::uint64_t group = item / warp, thread = group / row_count * warp + item % warp,
                            first = thread * run, left = piece.count - first;
        if (first >= piece.count) return;
        const int size = left < run ? static_cast<int>(left) : run;
        const std::uint64_t r = group % row_count;
        const ReducedRow row = rows[r];
        if (row.kind == ReducedRow::Kind::exact) add_exactly(r, row, first, size);
        else if (row.kahan != 0) add_in_order<true>(r, row, thread, first, size);
        else add_in_order<false>(r, row, thread, first, size);
    }

private:
    // Elements beyond the last are read as 0, and get a wire of the group.
    APSCOPE_HD void load(std::uint64_t worker, std::uint64_t first, float (&values)[run]) const {
        load_group(rounded + worker * piece.count, {piece.count, 0}, first, values);
    }
    APSCOPE_HD WireScale wire_of(std::uint64_t first, int j) const {
        const std::uint64_t i = first + static_cast<std::uint64_t>(j);
        return wires.at(0, i < piece.count ? i : first);
    }
    // The decoded sum of a row; those of `gather` are of decoded values.
    APSCOPE_HD double decoded(const ReducedRow& row, std::uint64_t i, double sum) const {
        const WireScale wire = wires.at(0, i);
        const bool of_codes = !adds_stored || !wire.narrow;
        return of_codes && row.kind != ReducedRow::Kind::gather ? wire.decode(sum) : sum;
    }

    APSCOPE_HD void add_exactly(std::uint64_t r, const ReducedRow& row, std::uint64_t first,
                                int size) const {
        double sums[run] = {};
        for (int w = 0; w < workers; ++w) {
            float values[run];
            load(static_cast<std::uint64_t>(w), first, values);
            for (int j = 0; j < run; ++j) {
                const double value = wire_of(first, j).value_of(values[j]);
                sums[j] = w == 0 ? value : sums[j] + value;
            }
        }
        for (int j = 0; j < run; ++j) {
            if (j < size)
                store(r, row, first + static_cast<std::uint64_t>(j), sums[j], {0, 0, true});
        }
    }

    template <bool Kahan>
    APSCOPE_HD void add_in_order(std::uint64_t r, const ReducedRow& row, std::uint64_t thread,
                                 std::uint64_t first, int size) const {
        const bool gather = row.kind == ReducedRow::Kind::gather,
                   wants_moments = wire_bias != nullptr && row.closed_form >= 0;
        const auto w = static_cast<std::uint32_t>(workers);
        const std::uint64_t pitch = threads(piece.count);
        double* const kept =
            slots + static_cast<std::uint64_t>(row.first_slot) * run * pitch + thread;
        const HopRunner<Sum, run, Kahan> runner{sum, instructions + row.first_instruction,
                                                row.instructions, row.result};
        RingPlace ring(row.ring != 0 ? piece.elements : 1, row.ring != 0 ? workers : 1,
                       row.ring != 0 ? piece.first + first : 0);
        for (int begin = 0; begin < size;) {
            int end = size;
            std::uint32_t turn = 0;
            if (row.ring != 0) {
                const std::uint64_t at = piece.first + first;
                turn =
                    static_cast<std::uint32_t>(ring.at(at + static_cast<std::uint64_t>(begin))) + 1;
                end = ring.end - at < static_cast<std::uint64_t>(size)
                          ? static_cast<int>(ring.end - at)
                          : size;
            }
            const auto leaf = [&](std::int32_t worker, Number(&values)[run]) {
                const std::uint32_t turned = static_cast<std::uint32_t>(worker) + turn;
                float read[run];
                load(turned < w ? turned : turned - w, first, read);
                for (int j = 0; j < run; ++j) {
                    if constexpr (adds_stored) {
                        values[j] = read[j];
                    } else {
                        const WireScale wire = wire_of(first, j);
                        values[j] =
                            gather ? narrowed(wire.value_of(read[j])) : wire.code_of(read[j]);
                    }
                }
            };
            GroupMoments<run> moments{wants_moments};
            const auto sums = runner(piece.first + first, leaf, kept, pitch, moments);
            for (int j = 0; j < run; ++j) {
                if (j < begin || j >= end) continue;
                const std::uint64_t i = first + static_cast<std::uint64_t>(j);
                store(r, row, i, decoded(row, i, sums.value[j]),
                      {moments.bias[j], moments.variance[j], (moments.undefined >> j & 1) == 0});
            }
            begin = end;
        }
    }

    // y: the decoded sum, not divided; hops: of the roundings of element i's hops.
    APSCOPE_HD void store(std::uint64_t r, const ReducedRow& row, std::uint64_t i, double y,
                          const RoundingMoments& hops) const {
        out.values[r * piece.count + i] = divisor != 1.0 ? y / divisor : y;
        if (wire_bias == nullptr || row.closed_form < 0) return;
        const WireScale wire = wires.at(0, i);
        const std::uint64_t to = static_cast<std::uint64_t>(row.closed_form) * piece.count + i;
        out.bias[to] = (wire_bias[i] + wire.decode(hops.bias)) / divisor;
        const double variance =
            (wire_variance[i] + wire.decode(wire.decode(hops.variance))) / (divisor * divisor);
        out.variance[to] = hops.defined ? variance : -variance;
    }
};

// The moments of the exact sum in two phases, the only row there that has a closed form.
struct ExactMomentsStep {
    SentSums sent;
    std::uint64_t elements;
    double divisor;
    ReducedResults out;

    APSCOPE_HD std::uint64_t count() const { return elements; }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        out.bias[i] = (sent.bias[i] + 0.0) / divisor;
        out.variance[i] = (sent.variance[i] + 0.0) / (divisor * divisor);
    }
};

template <class Wires>
struct ReducedStep : LineSumsStep {
    Piece piece;
    const ReducedRow* rows;
    std::uint64_t row_count;
    const double* reference;
    ReducedResults results;
    SentSums sent;
    Wires wires;       // common to the workers; those of the results
    FloatScale scale;  // the limits of the format; scale.units is the divisor

    APSCOPE_HD std::uint64_t count() const { return row_count * piece.blocks() * sum_lanes; }
    APSCOPE_HD RowLane begin(std::uint64_t item) const {
        const LaneItem item_at(item);
        const std::uint64_t row = item_at.line % row_count;
        const std::int32_t closed_form = rows[row].closed_form;
        const std::uint64_t moments = static_cast<std::uint64_t>(closed_form) * piece.count;
        RowLane lane;
        piece.each(item_at.line / row_count, item_at.lane, [&](std::uint64_t i) {
            const std::uint64_t at = row * piece.count + i;
            const double x = reference[i], y = results.values[at];
            FloatScale own = scale;
            own.scale = wires.at(0, i).factor;
            lane.pairs.add_pair(x, y, own);
            update_reduced_split(x, sent.exact[i], y, sent.lost[i], sent.clipped[i],
                                 [&](int k) -> double& { return lane.split[k]; });
            if (closed_form < 0) return;
            const double variance = results.variance[moments + i];
            const bool defined = (bits_cast<std::uint64_t>(variance) & sign_bit<double>) == 0;
            lane.moments.add(x, y, {results.bias[moments + i], absolute(variance), defined});
        });
        return lane;
    }
};

}  // namespace apscope::detail
