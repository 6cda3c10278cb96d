// The work of GPU threads in a replay, for one scheme on a piece of an item (complete blocks). It
// is the work of analysis/replay/float_blocks and phase_blocks, in steps; each reads results of the
// steps before it.
// Each line names a step, what one of its threads processes, and the result:
//
//      reference    an element        the fp64 sum of the workers' values, divided
//      wire         a lane            a worker's values rounded, kept and compared with the
//                                     unrounded ones
//      sent         an element        sums over the workers: the exact sum of the sent values, the
//                                     parts of its error due to underflow and saturation, the bias
//                                     and variance of the messages
//      hops         8 elements        a topology's hops, decoded (reduced_step.h)
//      reduced      a lane            their results compared with the reference
//      errors       2 elements        the squared errors of a result, added per noise block
//                                     (noise_step.h)
//      ratios       8 noise blocks    their ratios to the noise, multiplied
//      draws        the messages and hops of K draws, and their statistics (draw_step.h)
//
// Messages in a block format have steps of their own in place of `wire`, and scales of units of
// elements a step before it (block_row_step.h); so have messages of fp64 numbers (wide_messages.h),
// whose exact sum `sent` writes in place of the hops. In place of hops, a reduction in two phases
// has sums and their encoding (emulation/cuda/allreduce/phase_step.h). If the sums are encoded, a
// replay runs twice through its item: first for the extents of the sums, then for the rows.
//
// Lanes are those of piece.h, 16 a block; a group of threads combines them, and one thread writes
// the sums of a block. Blocks are added on the host, in their order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "analysis/cuda/line_sums.h"
#include "analysis/cuda/piece.h"
#include "emulation/cuda/allreduce/unit_scale.h"
#include "emulation/cuda/allreduce/wire_scale.h"

namespace apscope::detail {

// The message of a value, from the number that is stored for it.
APSCOPE_HD SentValue message_of(const WireScale& wire, float stored) {
    return {wire.value_of(stored), wire.code_of(stored), wire.factor};
}
// The moments of rounding x, which became y, in units of x.
APSCOPE_HD RoundingMoments moments_of(const WireScale& wire, const Cast<double>& cast, float x,
                                      double y) {
    if (!is_stochastic(cast.rounding)) return {y - widened(x), 0.0, true};
    const RoundingMoments m = moments_by_mode(widened(x) * wire.factor, cast);
    return {wire.decode(0.0 + m.bias), wire.decode(wire.decode(0.0 + m.variance)), m.defined};
}

// The wires of a piece with a power of two for each unit of elements; element i is the i-th of the
// piece.
struct PieceUnits {
    static constexpr bool of_codes = true;  // numbers are scaled before they are rounded
    std::int16_t* exponents;                // k of the scales 2^-k
    std::uint64_t units;  // from one worker's exponents to the next one's; 0: they are common
    int block_bits;       // log2 of the number of elements of a unit

    APSCOPE_HD WireScale at(std::uint64_t worker, std::uint64_t i) const {
        return unit_wire(exponents[worker * units + (i >> block_bits)]);
    }
};

// The messages that WireStep stores. Wires: OneWire or PieceUnits.
template <class Wires>
struct FloatMessages {
    const float* rounded;
    std::uint64_t pitch;  // from one worker's values to the next one's
    Wires wires;
    FloatScale scale;  // the limits of the format

    APSCOPE_HD const FloatScale& limits() const { return scale; }
    APSCOPE_HD SentValue at(std::uint64_t worker, std::uint64_t i) const {
        return message_of(wires.at(worker, i), rounded[worker * pitch + i]);
    }
    APSCOPE_HD RoundingMoments moments(std::uint64_t worker, std::uint64_t i, float x,
                                       double y) const {
        return moments_of(wires.at(worker, i), scale.cast, x, y);
    }
    // For units of elements: see BlockMessages in block_row_step.h.
    APSCOPE_HD int block_bits() const { return wires.block_bits; }
    APSCOPE_HD BlockFactor begin_block(std::uint64_t worker, std::uint64_t first) const {
        const WireScale wire = wires.at(worker, first);
        return {wire.factor, wire.inverse};
    }
    APSCOPE_HD double element(std::uint64_t worker, std::uint64_t i) const {
        return rounded[worker * pitch + i];
    }
};

struct ReferenceStep {
    const float* rows;  // `workers` rows of piece.count values
    Piece piece;
    int workers;
    double divisor;
    double* out;

    APSCOPE_HD std::uint64_t count() const { return piece.count; }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        double sum = rows[i];
        for (int w = 1; w < workers; ++w)
            sum += rows[static_cast<std::uint64_t>(w) * piece.count + i];
        out[i] = divisor != 1.0 ? sum / divisor : sum;
    }
};

// Rounding is one of emulation/cuda/cast/group_rounding.h; it rounds fp32 numbers for narrow
// values, scaled numbers in fp64 for codes. Without `out`, values are only rounded. Wires: OneWire
// or PieceUnits, of which fp32 numbers are scaled first.
template <class Rounding, class Wires>
struct WireStep : LineSumsStep {
    const float* rows;
    Piece piece;
    int all_workers;
    WorkerRange workers;  // those of the step
    Rounding rounding;    // its stream differs per worker
    Wires wires;
    FloatScale scale;  // the limits of the format
    PhiloxKey key;
    // True: the moments of the roundings are added up, for the result row of the messages.
    bool moments;
    float* rounded;  // in the layout of `rows`

    APSCOPE_HD std::uint64_t count() const { return workers.size() * piece.blocks() * sum_lanes; }
    APSCOPE_HD std::uint64_t worker_of(std::uint64_t line) const {
        return static_cast<std::uint64_t>(workers.first) + line % workers.size();
    }
    APSCOPE_HD RowLane begin(std::uint64_t item) const {
        const LaneItem at(item);
        const std::uint64_t worker = worker_of(at.line);
        Rounding rounding_of_row = rounding;
        set_worker(rounding_of_row, key, worker, scale.cast.random_bits);
        const float* row = rows + worker * piece.count;
        float* sent = rounded + worker * piece.count;
        RowLane lane;
        piece.each(at.line / workers.size(), at.lane, [&](std::uint64_t i) {
            const WireScale wire = wires.at(worker, i);
            float value[1] = {row[i]};
            if constexpr (Wires::of_codes && sizeof(typename Rounding::Number) == sizeof(float))
                value[0] = narrowed(widened(row[i]) * wire.factor);
            round_for_wire(rounding_of_row, wire, value, piece.first + i);
            sent[i] = value[0];
            if (out == nullptr) return;
            const double x = row[i];
            const SentValue message = message_of(wire, sent[i]);
            lane.add_sent(x, message, scale);
            if (moments)
                lane.moments.add(x, message.value,
                                 moments_of(wire, scale.cast, row[i], message.value));
        });
        return lane;
    }
    APSCOPE_HD void finish(std::uint64_t item, const RowLane&, const LineSums& all) const {
        const LaneItem at(item);
        if (out == nullptr || at.lane != 0) return;
        out[at.line / workers.size() * static_cast<std::uint64_t>(all_workers) +
            worker_of(at.line)] = all;
    }
};

// Sums over the workers, one number per element: the exact sums of the messages, and the errors of
// these sums due to underflow (`lost`) and saturation (`clipped`); the bias and the variance of the
// messages, or null.
struct SentSums {
    double *exact, *lost, *clipped, *bias, *variance;
};
// Continues the sums with those of a range of workers. The range of the last workers divides them.
// Messages: FloatMessages or BlockMessages (block_row_step.h).
template <class Messages>
struct SentStep {
    const float* rows;
    Piece piece;
    int all_workers;
    WorkerRange workers;
    Messages messages;
    double divisor;
    SentSums out;

    APSCOPE_HD std::uint64_t count() const { return piece.count; }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        const bool begun = workers.first != 0, has_moments = out.bias != nullptr;
        double exact = begun ? out.exact[i] : 0.0, lost = begun ? out.lost[i] : 0.0,
               clipped = begun ? out.clipped[i] : 0.0,
               bias = begun && has_moments ? out.bias[i] : 0.0,
               variance = begun && has_moments ? out.variance[i] : 0.0;
        for (int w = workers.first; w < workers.last; ++w) {
            const auto worker = static_cast<std::uint64_t>(w);
            const float x = rows[worker * piece.count + i];
            const SentValue sent = messages.at(worker, i);
            const SentError e = sent.error(x, messages.limits());
            const double y = sent.value;
            exact = w == 0 ? y : exact + y;
            lost += e.underflow;
            clipped += e.saturation;
            if (!has_moments) continue;
            const RoundingMoments m = messages.moments(worker, i, x, y);
            bias += m.bias;
            variance += m.variance;
        }
        const bool divides = workers.last == all_workers && divisor != 1.0;
        const auto divided = [&](double v) { return divides ? v / divisor : v; };
        out.exact[i] = divided(exact);
        out.lost[i] = divided(lost);
        out.clipped[i] = divided(clipped);
        if (!has_moments) return;
        out.bias[i] = bias;
        out.variance[i] = variance;
    }
};

}  // namespace apscope::detail
