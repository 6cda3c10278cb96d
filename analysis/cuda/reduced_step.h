// The reduced rows of a replay on a GPU (row_step.h): the hops of the topologies, then the
// comparison of their results with the reference. The hops are a step of their own, because a lane
// of a sum has 256 elements in order, which would keep most of a GPU's threads waiting.
#pragma once

#include <cstdint>

#include "analysis/cuda/row_step.h"
#include "emulation/cuda/allreduce/hop_program.h"
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
    std::int32_t first_slot;  // of the task's slots, one of which every thread has
};

// The results of reduced rows; row r begins at r * piece.count. The bias and the variance, of
// messages and hops together, are those of the rows with a closed form; row number c of these
// begins at c * piece.count. The sign bit of the variance is set if the moments are not defined.
struct ReducedResults {
    double *values, *bias, *variance;
};

// Runs the hops. A group of 32 threads, a warp, processes 256 consecutive elements of a row, and
// successive groups process other rows of the same elements, which are then in a cache. Adder: one
// of emulation/cuda/allreduce/hop_program.h; StepAdder adds stored numbers. Wires: see WireStep.
template <class Adder, class Wires>
struct HopStep {
    static constexpr std::uint64_t warp = 32, run = 8;  // threads of a group, elements of a thread

    const float* rounded;
    Piece piece;
    int workers;
    Wires wires;  // common to the workers
    double divisor;
    Adder adder;
    const ReducedRow* rows;
    std::uint64_t row_count;
    const HopInstruction* instructions;
    HopSlot* slots;
    const double *wire_bias, *wire_variance;  // null if no row has a closed form
    ReducedResults out;

    APSCOPE_HD static std::uint64_t threads(std::uint64_t elements) {
        return (elements + warp * run - 1) / (warp * run) * warp;
    }
    APSCOPE_HD std::uint64_t count() const { return row_count * threads(piece.count); }
    APSCOPE_HD double decoded(const WireScale& wire, std::uint64_t worker, std::uint64_t i) const {
        return wire.value_of(rounded[worker * piece.count + i]);
    }
    APSCOPE_HD void operator()(std::uint64_t item) const {
        using Number = typename Adder::Number;
        const std::uint64_t group = item / warp, r = group % row_count,
                            thread = group / row_count * warp + item % warp,
                            begin = group / row_count * warp * run + item % warp,
                            past = begin + warp * run,
                            end = past < piece.count ? past : piece.count;
        if (begin >= end) return;
        const ReducedRow row = rows[r];
        const std::uint64_t pitch = threads(piece.count);
        HopSlot* const kept = slots + static_cast<std::uint64_t>(row.first_slot) * pitch + thread;
        const HopRunner<Adder> runner{adder, row.kahan != 0, instructions + row.first_instruction,
                                      row.instructions, row.result};
        const bool wants_moments = wire_bias != nullptr && row.closed_form >= 0,
                   gather = row.kind == ReducedRow::Kind::gather;
        // 32 bits suffice, because a piece is short (most_piece_blocks).
        const auto w = static_cast<std::uint32_t>(workers),
                   count_of_row = static_cast<std::uint32_t>(piece.count);
        RingPlace ring(row.ring != 0 ? piece.elements : 1, row.ring != 0 ? workers : 1,
                       row.ring != 0 ? piece.first + begin : 0);
        for (std::uint64_t i = begin; i < end; i += warp) {
            const WireScale wire = wires.at(0, i);
            HopSumMoments hops;
            double y;
            if (row.kind == ReducedRow::Kind::exact) {
                y = decoded(wire, 0, i);
                for (std::uint32_t other = 1; other < w; ++other) y += decoded(wire, other, i);
            } else {
                const std::uint32_t turn =
                    row.ring != 0 ? static_cast<std::uint32_t>(ring.at(piece.first + i)) + 1 : 0;
                const auto leaf = [&](std::int32_t worker) -> Number {
                    const std::uint32_t turned = static_cast<std::uint32_t>(worker) + turn,
                                        at = turned < w ? turned : turned - w;
                    const float value = rounded[std::uint64_t{at} * count_of_row + i];
                    if constexpr (sizeof(Number) == sizeof(float)) return value;
                    else return gather ? narrowed(wire.value_of(value)) : wire.code_of(value);
                };
                y = runner(piece.first + i, leaf, kept, pitch, wants_moments ? &hops : nullptr);
                const bool of_codes = sizeof(Number) == sizeof(double) || !wire.narrow;
                if (of_codes && !gather) y = wire.decode(y);
            }
            const std::uint64_t at = r * piece.count + i;
            out.values[at] = divisor != 1.0 ? y / divisor : y;
            if (!wants_moments) continue;
            const std::uint64_t to = static_cast<std::uint64_t>(row.closed_form) * piece.count + i;
            out.bias[to] = (wire_bias[i] + wire.decode(hops.bias)) / divisor;
            const double variance =
                (wire_variance[i] + wire.decode(wire.decode(hops.variance))) / (divisor * divisor);
            out.variance[to] = hops.defined ? variance : -variance;
        }
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
