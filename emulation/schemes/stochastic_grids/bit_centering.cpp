// bit_centering: HALP's number format as a gradient codec. An element is sent as its offset from a
// centre, which all workers know, rounded to a small integer times delta; delta is proportional to
// the centre's norm.
//
//      every `period` steps    g is sent in fp32
//                              c = mean of g, in fp32
//      between                 z = g - c
//                              delta = |c|_2 / (mu (2^(bits-1) - 1))
//                              q = clip(floor(z / delta + U[0, 1)), -2^(bits-1), 2^(bits-1) - 1)
//                              g' = c + delta q, the decoded value
//
// All workers can compute delta, so there is no side information. If c = 0 (the training has
// converged), delta is 0 and every message decodes to 0. In HALP, z is the offset of the weights
// and c the full gradient, and |c|_2 / mu bounds the distance to the optimum; here z and c are both
// gradients, and mu only sets the range |c|_2 / mu of the offsets.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/named_formats.h"
#include "core/parse.h"
#include "emulation/schemes/codecs/float_row.h"
#include "emulation/schemes/codecs/levels.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

// The state and the parameters of a step share the row of the centre, because a centre is not
// changed while it is used.
using SharedRow = std::shared_ptr<Row>;

void row_field(Fields& f, const char* name, SharedRow& row) {
    Row values = row ? *row : Row{};
    f.row(name, values);
    if (!f.writes() && !values.empty()) row = std::make_shared<Row>(std::move(values));
}

struct Memory {
    // The number of steps since the centre was computed; 0: this step computes a new centre.
    long age = 0;
    SharedRow centre;

    void fields(Fields& f) {
        f.numbers("age", age);
        row_field(f, "centre", centre);
    }
};

struct Centred {
    bool takes_centre = true;  // g is sent in fp32, and its mean becomes the centre
    double delta = 0.0;
    SharedRow centre;

    void fields(Fields& f) {
        f.numbers("takes_centre", takes_centre);
        f.numbers("delta", delta);
        row_field(f, "centre", centre);
    }
};

LevelTable integer_box(int bits) {
    Row box;
    for (long q = -(1L << (bits - 1)); q < 1L << (bits - 1); ++q)
        box.push_back(static_cast<double>(q));
    return LevelTable(std::move(box));
}

void encode_offsets(const RowPiece& p, const LevelTable& box, int random_bits, Message& m) {
    const auto& [takes_centre, delta, row] = p.theta.of<Centred>();
    const std::size_t n = p.x.size();
    const std::span<const double> x = p.x, centre = piece_of(std::as_const(*row), p.place, n);
    thread_local Row z;
    z.resize(n);
    for (std::size_t i = 0; i < n; ++i) z[i] = delta == 0.0 ? 0.0 : x[i] - centre[i];
    encode_levels(m, z, box, delta, LevelRule::stochastic, p.stream(random_bits), p.packs(),
                  p.place.first);
    for (std::size_t i = 0; i < n; ++i) {
        m.values[i] += centre[i];
        // The added term is 0, except for rounding errors, unless delta = 0.
        m.bias[i] += centre[i] + z[i] - x[i];
    }
}

void take_centre(Memory& memory, const Place& place, const Exchange& e) {
    constexpr double largest = std::numeric_limits<float>::max();
    const Row& sum = e.reduced[0];
    const std::span<double> centre = piece_of(*memory.centre, place, sum.size());
    const auto workers = static_cast<double>(e.sent.size());
    for (std::size_t i = 0; i < sum.size(); ++i)
        centre[i] = static_cast<float>(std::clamp(sum[i] / workers, -largest, largest));
}

SchemeParts parts_of(const SchemeArguments& arguments) {
    const int bits = static_cast<int>(arguments.integer("bits", 2, 16));
    const int random_bits = static_cast<int>(arguments.integer("random_bits", 1, 53));
    const long period = arguments.integer("period", 1, largest_count);
    const double mu = arguments.number("mu", 0.0);
    if (mu == 0.0)
        throw std::invalid_argument("mu=" + arguments.text("mu") + " is not above 0 (such as 0.1)");
    const FloatGrid fp32{parse_format("fp32"), {RoundingMode::ties_to_even, Overflow::saturate}};
    const auto begin = [](State& state, std::size_t, std::size_t size) {
        Memory& memory = state.of<Memory>();
        // A state does not keep a centre without elements.
        if (memory.age == 0 || (size == 0 && !memory.centre))
            memory.centre = std::make_shared<Row>(size);
        else check_length(memory.centre ? memory.centre->size() : 0, size);
    };
    const auto select = [bits, mu](const Selection& s) {
        const auto& [age, centre] = s.state.of<Memory>();
        Parameters theta;
        auto& [takes_centre, delta, around] = theta.extra.of<Centred>();
        takes_centre = age == 0;
        if (takes_centre) return theta;
        around = centre;
        delta = std::sqrt(sum_of_squares(*centre)) / mu / (std::ldexp(1.0, bits - 1) - 1.0);
        if (!std::isfinite(delta))
            throw std::invalid_argument("the state's 'centre' has elements that are not finite");
        return theta;
    };
    const auto encode = [fp32, random_bits, box = integer_box(bits)](const RowPiece& p,
                                                                     Message& m) {
        if (!p.theta.of<Centred>().takes_centre) return encode_offsets(p, box, random_bits, m);
        encode_float_row(p, 1.0, fp32, m);
        m.grid_use.reset();  // not counted, because the scheme's grid is `offset`
    };
    return {.grid = "offset:" + std::to_string(bits),
            .choice = {.select = select},
            .memory = {
                .begin = begin,
                .update =
                    [](const TrainingStep&, State& state, const Place& place, const Exchange& e) {
                        if (state.of<Memory>().age == 0) take_centre(state.of<Memory>(), place, e);
                    },
                .end =
                    [period](const TrainingStep&, State& state) {
                        long& age = state.of<Memory>().age;
                        age = age + 1 == period ? 0 : age + 1;
                    }},
            .encoding = {.encode = encode, .draws = true}};
}

}  // namespace

SchemeDefinition bit_centering_definition() {
    return {.class_name = "BitCentering",
            .summary =
                "integers around the last centre gradient, on a scale that shrinks with its norm",
            .source = "De Sa et al., High-Accuracy Low-Precision Training (HALP), "
                      "arXiv:1803.03383, on gradients",
            .needs = "gradients of consecutive steps",
            .keys = {{"bits", "8", "bits of an offset, 2 to 16"},
                     {"mu", "0.1", "the range of offsets is the centre's l2 norm over mu"},
                     {"period", "10", "steps from one centre, sent in fp32, to the next"},
                     {"random_bits", "32", "random bits of stochastic rounding, 1 to 53"},
                     correlated_key},
            .build = parts_of};
}

}  // namespace apscope::detail
