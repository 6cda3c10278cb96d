// three_lc: signs or zeros times a multiple of the worker's largest magnitude, packed without loss.
//
//      M = sparsity max |g|        an fp32 number; 1 <= sparsity < 2
//      q = round(g / M)            -1, 0 or 1: to nearest, ties to even (0), or stochastic
//      y = M q
//
// A larger sparsity gives more zeros. Five codes fill a byte, and a run of zero bytes is one byte
// (codecs/ternary_bytes.h). Messages are gathered and added in fp32. The paper adds the error of a
// message to the next step's gradient: error_feedback(three_lc).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "emulation/schemes/codecs/levels.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/codecs/ternary_bytes.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

constexpr double largest_fp32 = std::numeric_limits<float>::max();

struct Ternary {
    double sparsity;
    LevelRule rule;
    int random_bits;
};

double scale_of(const RowReader& x, double sparsity) {
    return static_cast<float>(std::min(sparsity * amax_of(x), largest_fp32));
}

void encode(const RowPiece& p, const Ternary& how, Message& m) {
    static const LevelTable levels({-1.0, 0.0, 1.0});
    const double scale = p.measured[0];
    if (how.rule == LevelRule::stochastic) {
        encode_levels(m, p.x, levels, scale, how.rule, p.stream(how.random_bits), false,
                      p.place.first);
        for (double& code : m.codes) code -= 1.0;
    } else {
        m.prepare(p.x.size(), true, false);
        for (std::size_t i = 0; i < p.x.size(); ++i) {
            const double magnitude = std::abs(p.x[i]) > scale / 2 ? 1.0 : 0.0;
            m.codes[i] = p.x[i] < 0.0 ? -magnitude : magnitude;
            m.values[i] = scale * m.codes[i];
        }
    }
    BitWriter bits(p.packs());
    put_ternary_bytes(bits, m.codes);
    m.payload_bits = bits.bits();
    if (p.packs()) m.payload = bits.take();
    m.side_bits = m.tensor_bits = 32;
}

SchemeParts parts_of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 2> rules{"ties_to_even", "stochastic"};
    const Ternary how{arguments.number("sparsity", 1.0, 1.999),
                      arguments.one_of<LevelRule>("rounding", rules),
                      static_cast<int>(arguments.integer("random_bits", 1, 53))};
    return {.grid = "levels:3",
            .run = whole_row,  // runs of zero bytes
            .choice = {.measure =
                           [how](const WorkerRow& r) { return Row{scale_of(r.x, how.sparsity)}; }},
            .encoding = {.encode = [how](const RowPiece& p, Message& m) { encode(p, how, m); },
                         .draws = how.rule == LevelRule::stochastic}};
}

}  // namespace

SchemeDefinition three_lc_definition() {
    return {.class_name = "ThreeLC",
            .summary = "signs or zeros times a multiple of the worker's largest magnitude, five in "
                       "a byte, runs of zero bytes in one; gathered and added in fp32",
            .source = "Lim, Andersen and Kaminsky, 3LC, MLSys 2019 (arXiv:1802.07389)",
            .needs = "gradients",
            .keys = {{"sparsity", "1", "the scale over the largest magnitude, 1 to 1.999"},
                     {"rounding", "ties_to_even", "ties_to_even or stochastic"},
                     {"random_bits", "32", "random bits of stochastic rounding, 1 to 53"},
                     correlated_key},
            .build = parts_of};
}

}  // namespace apscope::detail
