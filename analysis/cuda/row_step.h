// The work of GPU threads in a replay, for one scheme on a piece of an item (complete blocks). It
// is the work of analysis/replay/float_blocks, in steps; each reads results of the steps before it.
// Each line names a step, what one of its threads processes, and the result:
//
//      reference    an element        the fp64 sum of the workers' values, divided
//      wire         a lane            a worker's values rounded, kept and compared with the
//                                     unrounded ones
//      moments      an element        bias and variance of the workers' rounding, added up
//      split        an element        the exact sum of the sent values, and the parts of its error
//                                     due to underflow and saturation
//      reduced      a lane            a topology's hops, decoded and compared with the reference
//      errors       a noise block     the squared errors of a result, added up from its lanes
//      ratios       a block           their ratios to the noise, multiplied
//                                     (emulation/allreduce/batch_noise.h)
//      draws        a lane            the same hops, whose result is stored; then the statistics of
//                                     all K draws together
//      join         a quantity        the 16 lanes of a block, added
//
// A lane is a place of the fixed-shape sums (core/fixed_shape_sum.h): place p adds the elements of
// block p / 16 with i mod 16 = p mod 16, in order of i. Blocks are added on the host, in their
// order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "analysis/cuda/error_step.h"
#include "analysis/cuda/noise_step.h"
#include "emulation/cuda/allreduce/hop_program.h"

namespace apscope::detail {

// The quantities that a lane adds up, each as a double, which holds counts up to 4096 exactly.
struct RowQuantities {
    enum : int {
        sums = 0,                                 // ErrorStatistics::Sum
        split = ErrorStatistics::sum_count,       // ErrorSplit::Part
        counts = split + ErrorSplit::part_count,  // ErrorCounts::Count
        undefined = counts + ErrorCounts::size,   // roundings without moments
        max_ulp,
        size
    };
};

// The sums of one lane for one result row.
struct RowLane {
    ErrorLane pairs;
    MomentLane moments;
    double split[ErrorSplit::part_count] = {};

    // Writes quantity q to out[q * pitch].
    APSCOPE_HD void store(double* out, std::uint64_t pitch) const {
        using Q = RowQuantities;
        for (int k = 0; k < error_sums; ++k)
            out[static_cast<std::uint64_t>(Q::sums + k) * pitch] = pairs.sum[k];
        out[ErrorStatistics::expected_error * pitch] = moments.error;
        out[ErrorStatistics::expected_variance * pitch] = moments.variance;
        for (int k = 0; k < ErrorSplit::part_count; ++k)
            out[static_cast<std::uint64_t>(Q::split + k) * pitch] = split[k];
        for (int k = 0; k < ErrorCounts::size; ++k)
            out[static_cast<std::uint64_t>(Q::counts + k) * pitch] = pairs.count[k];
        out[Q::undefined * pitch] = moments.undefined;
        out[Q::max_ulp * pitch] = pairs.max_ulp;
    }
};

// The encoding of values for the wire, and their decoding. For each value the code is stored, as an
// fp32 number; if `narrow`, the decoded code is stored instead, which is then an fp32 number, too.
struct WireCast {
    FloatScale scale;
    double inverse;  // 1 / scale, a power of two; 0: results are divided by the scale
    bool narrow;

    APSCOPE_HD double code_of(float rounded) const {
        return narrow ? rounded * scale.scale : rounded;
    }
    APSCOPE_HD double value_of(float rounded) const { return narrow ? rounded : decode(rounded); }
    // The error of x, from the number `rounded` that is stored for x.
    APSCOPE_HD SentError error(double x, float rounded) const {
        return sent_error(
            x, value_of(rounded),
            is_saturated(absolute(x * scale.scale), absolute(code_of(rounded)), scale.largest));
    }
    APSCOPE_HD double decode(double code) const {
        return inverse != 0.0 ? code * inverse : code / scale.scale;
    }
    // The moments of rounding x, which became y, in units of x.
    APSCOPE_HD RoundingMoments moments(float x, double y) const {
        if (!is_stochastic(scale.cast.rounding)) return {y - widened(x), 0.0, true};
        const RoundingMoments m = moments_by_mode(widened(x) * scale.scale, scale.cast);
        return {decode(0.0 + m.bias), decode(decode(0.0 + m.variance)), m.defined};
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
// values, scaled numbers in fp64 for codes.
template <class Rounding>
struct WireStep {
    using Number = typename Rounding::Number;
    const float* rows;
    Piece piece;
    int workers;
    Rounding rounding;  // its stream differs per worker
    WireCast cast;
    PhiloxKey key;
    // True: the moments of the roundings are added up, for the result row of the messages.
    bool moments;
    float* rounded;  // in the layout of `rows`
    double* lanes;   // worker w's place p at w * places + p; null: only values are stored
    std::uint64_t pitch;

    APSCOPE_HD std::uint64_t count() const {
        return static_cast<std::uint64_t>(workers) * piece.places();
    }
    APSCOPE_HD void operator()(std::uint64_t item) const {
        const std::uint64_t worker = item / piece.places(), place = item % piece.places();
        Rounding rounding_of_row = rounding;
        if constexpr (!std::is_same_v<Rounding, AdditionRounding>) {
            rounding_of_row.stream = {key, static_cast<std::uint32_t>(worker),
                                      stage_and_hop(Stage::wire, 0), cast.scale.cast.random_bits};
        }
        const float* row = rows + worker * piece.count;
        float* sent = rounded + worker * piece.count;
        RowLane lane;
        for (std::uint64_t i = piece.begin(place), end = piece.end(place); i < end;
             i += sum_lanes) {
            Number value[1];
            if constexpr (sizeof(Number) == sizeof(float)) value[0] = row[i];
            else value[0] = widened(row[i]) * cast.scale.scale;
            rounding_of_row(value, piece.first + i);
            if constexpr (sizeof(Number) == sizeof(float)) sent[i] = value[0];
            else sent[i] = narrowed(value[0]);
            if (lanes == nullptr) continue;
            const double x = row[i], y = cast.value_of(sent[i]);
            lane.pairs.add_limits(x, cast.code_of(sent[i]), cast.scale);
            lane.pairs.add_pair(x, y, cast.scale);
            update_sent_split(cast.error(x, sent[i]),
                              [&](int k) -> double& { return lane.split[k]; });
            if (moments) lane.moments.add(x, y, cast.moments(row[i], y));
        }
        if (lanes != nullptr) lane.store(lanes + item, pitch);
    }
};

struct MomentsStep {
    const float *rows, *rounded;
    Piece piece;
    int workers;
    WireCast cast;
    double *bias, *variance;

    APSCOPE_HD std::uint64_t count() const { return piece.count; }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        double sum = 0.0, spread = 0.0;
        for (int w = 0; w < workers; ++w) {
            const std::uint64_t at = static_cast<std::uint64_t>(w) * piece.count + i;
            const RoundingMoments m = cast.moments(rows[at], cast.value_of(rounded[at]));
            sum += m.bias;
            spread += m.variance;
        }
        bias[i] = sum;
        variance[i] = spread;
    }
};

// The inputs of ErrorSplit other than a result: the exact sums of the messages, and the errors of
// these sums due to underflow (`lost`) and saturation (`clipped`); rows of piece.count numbers.
struct SplitRows {
    double *exact, *lost, *clipped;
};
struct SplitStep {
    const float *rows, *rounded;
    Piece piece;
    int workers;
    WireCast cast;
    double divisor;
    SplitRows out;

    APSCOPE_HD std::uint64_t count() const { return piece.count; }
    APSCOPE_HD void operator()(std::uint64_t i) const {
        double exact = 0.0, lost = 0.0, clipped = 0.0;
        for (int w = 0; w < workers; ++w) {
            const std::uint64_t at = static_cast<std::uint64_t>(w) * piece.count + i;
            const SentError e = cast.error(rows[at], rounded[at]);
            const double y = cast.value_of(rounded[at]);
            exact = w == 0 ? y : exact + y;
            lost += e.underflow;
            clipped += e.saturation;
        }
        const auto divided = [&](double v) { return divisor != 1.0 ? v / divisor : v; };
        out.exact[i] = divided(exact);
        out.lost[i] = divided(lost);
        out.clipped[i] = divided(clipped);
    }
};

// A reduced row: the way in which the workers' codes become a result.
struct ReducedRow {
    enum class Kind : std::int32_t { exact, gather, hops };
    Kind kind;
    std::int32_t ring, kahan, closed_form;
    std::uint64_t first_instruction;
    std::int32_t instructions, result;
};

// The results of a scheme's reduced rows, lane by lane. Adder: one of
// emulation/cuda/allreduce/hop_program.h; StepAdder adds narrow values.
template <class Adder>
struct Reducer {
    const float* rounded;
    Piece piece;
    int workers;
    WireCast cast;
    double divisor;
    Adder adder;
    const ReducedRow* rows;
    const HopInstruction* instructions;
    HopSlot* slots;
    std::uint64_t slots_pitch;

    APSCOPE_HD double decoded(std::uint64_t worker, std::uint64_t i) const {
        return cast.value_of(rounded[worker * piece.count + i]);
    }

    // Calls f(i, y, moments of the hops) for the elements of a place. This thread's slots begin at
    // `slot`.
    template <class F>
    APSCOPE_HD void each(const ReducedRow& row, std::uint64_t place, std::uint64_t slot,
                         bool wants_moments, const F& f) const {
        using Number = typename Adder::Number;
        const HopRunner<Adder> runner{adder, row.kahan != 0, instructions + row.first_instruction,
                                      row.instructions, row.result};
        const auto w = static_cast<std::uint64_t>(workers);
        const std::uint64_t begin = piece.begin(place), end = piece.end(place);
        RingPlace ring(piece.elements, workers, piece.first + begin);
        for (std::uint64_t i = begin; i < end; i += sum_lanes) {
            HopSumMoments moments;
            double y;
            if (row.kind == ReducedRow::Kind::exact) {
                y = decoded(0, i);
                for (std::uint64_t other = 1; other < w; ++other) y += decoded(other, i);
            } else {
                const bool gather = row.kind == ReducedRow::Kind::gather;
                const std::uint64_t turn = row.ring != 0 ? ring.at(piece.first + i) + 1 : 0;
                const auto leaf = [&](std::int32_t worker) -> Number {
                    const std::uint64_t turned = static_cast<std::uint64_t>(worker) + turn,
                                        at = turned < w ? turned : turned - w;
                    const float value = rounded[at * piece.count + i];
                    if constexpr (sizeof(Number) == sizeof(float)) return value;
                    else return gather ? narrowed(cast.value_of(value)) : cast.code_of(value);
                };
                y = runner(piece.first + i, leaf, slots + slot, slots_pitch,
                           wants_moments ? &moments : nullptr);
                if (sizeof(Number) == sizeof(double) && !gather) y = cast.decode(y);
            }
            f(i, divisor != 1.0 ? y / divisor : y, moments);
        }
    }
};

template <class Adder>
struct ReducedStep {
    Reducer<Adder> reducer;
    std::uint64_t row_count;
    const double *reference, *wire_bias, *wire_variance;
    SplitRows split;
    FloatScale scale;  // scale of the results; scale.units is the divisor
    double* lanes;     // row r's place p at r * places + p
    std::uint64_t pitch;
    double* squares;  // the lanes' parts of the squared errors (NoiseLane); null: not stored

    APSCOPE_HD std::uint64_t count() const { return row_count * reducer.piece.places(); }
    APSCOPE_HD void operator()(std::uint64_t item) const {
        const std::uint64_t places = reducer.piece.places();
        const ReducedRow row = reducer.rows[item / places];
        RowLane lane;
        NoiseLane noise{squares + item, count()};
        reducer.each(
            row, item % places, item, row.closed_form != 0,
            [&](std::uint64_t i, double y, const HopSumMoments& hops) {
                const double x = reference[i];
                if (squares != nullptr) noise.add(y - x);
                lane.pairs.add_pair(x, y, scale);
                update_reduced_split(x, split.exact[i], y, split.lost[i], split.clipped[i],
                                     [&](int k) -> double& { return lane.split[k]; });
                if (row.closed_form == 0) return;
                const double divisor = reducer.divisor;
                const double bias = (wire_bias[i] + reducer.cast.decode(hops.bias)) / divisor;
                const double variance =
                    (wire_variance[i] + reducer.cast.decode(reducer.cast.decode(hops.variance))) /
                    (divisor * divisor);
                lane.moments.add(x, y, {bias, variance, hops.defined});
            });
        lane.store(lanes + item, pitch);
    }
};

// The results of one draw: row r begins at values + r * row_pitch.
template <class Adder>
struct DrawStep {
    Reducer<Adder> reducer;
    std::uint64_t row_count;
    double* values;
    std::uint64_t row_pitch;

    APSCOPE_HD std::uint64_t count() const { return row_count * reducer.piece.places(); }
    APSCOPE_HD void operator()(std::uint64_t item) const {
        const std::uint64_t places = reducer.piece.places(), row = item / places;
        double* out = values + row * row_pitch;
        reducer.each(reducer.rows[row], item % places, item, false,
                     [&](std::uint64_t i, double y, const HopSumMoments&) { out[i] = y; });
    }
};

// The statistics of K draws: quantity 0 is the sum of variances, 1 .. K are the draws' sums of
// errors, K + 1 .. 2 K the sums of variances with one draw left out. All are computed from
// deviations from draw 0, whose sums lose no digits to cancellation.
struct DrawStatisticsStep {
    const double* values;  // draw d of row r at (r * draws + d) * piece.count
    Piece piece;
    std::uint64_t row_count;
    int draws;
    const double* reference;
    double* lanes;
    std::uint64_t pitch;

    APSCOPE_HD std::uint64_t count() const { return row_count * piece.places(); }
    APSCOPE_HD void operator()(std::uint64_t item) const {
        const std::uint64_t place = item % piece.places();
        const auto k = static_cast<std::uint64_t>(draws);
        const double* row = values + item / piece.places() * k * piece.count;
        double *variance_sum = lanes + item, *error = variance_sum + pitch,
               *left_out = error + k * pitch;
        for (std::uint64_t q = 0; q < 2 * k + 1; ++q) variance_sum[q * pitch] = 0.0;
        const double number = draws;
        for (std::uint64_t i = piece.begin(place), end = piece.end(place); i < end;
             i += sum_lanes) {
            const auto y = [&](std::uint64_t d) { return row[d * piece.count + i]; };
            const double first = y(0), x = reference[i];
            double sum = 0.0, squares = 0.0;
            for (std::uint64_t d = 1; d < k; ++d) {
                const double z = y(d) - first;
                sum += z;
                squares += z * z;
            }
            *variance_sum += (squares - sum * sum / number) / (number - 1.0);
            for (std::uint64_t d = 0; d < k; ++d) {
                error[d * pitch] += y(d) - x;
                const double z = y(d) - first, s = sum - z;
                left_out[d * pitch] +=
                    ((squares - z * z) - s * s / (number - 1.0)) / (number - 2.0);
            }
        }
    }
};

// Adds the lanes of each block: quantity q of block b is at q * blocks + b.
struct JoinStep {
    const double* lanes;
    double* out;
    std::uint64_t quantities, blocks, summed;  // quantities from `summed` on are maxima

    APSCOPE_HD std::uint64_t count() const { return quantities * blocks; }
    APSCOPE_HD void operator()(std::uint64_t item) const {
        double lane[sum_lanes];
        for (std::size_t j = 0; j < sum_lanes; ++j) lane[j] = lanes[item * sum_lanes + j];
        if (item / blocks < summed) {
            out[item] = join_lanes(lane);
            return;
        }
        double largest = 0.0;
        for (const double v : lane) largest = v > largest ? v : largest;
        out[item] = largest;
    }
};

}  // namespace apscope::detail
