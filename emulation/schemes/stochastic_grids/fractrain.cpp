// fractrain: progressive fractional quantization (PFQ), that is rounding to integers times a scale
// plus an offset, with a width that grows when the loss stalls.
//
//      step = max((max - min) / (2^b - 1), least_scale)      min and max of one worker's tensor
//      q    = floor((g - min) / step + U[0, 1))
//      g'   = min + step q                                   the decoded value
//      b    = bits[turning points so far]
//
// A turning point is a step at which none of the last 5 losses differs from the last loss by more
// than epsilon times the mean of the first 10 losses. The window of 5 losses then starts again, and
// at the first two turning points epsilon becomes alpha epsilon. The new width applies from the
// next step on. The losses are those of the replayed steps, not of epochs as in the source. A NaN
// does not exceed epsilon, so five NaN losses are a turning point, as in the authors' code; so is
// every window once the mean of the first losses is not a number.
#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "core/parse.h"
#include "emulation/schemes/codecs/levels.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

std::vector<int> schedule(const std::string& text) {
    std::vector<int> bits;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find('/', begin), text.size());
        const auto b = parse_number<int>(std::string_view(text).substr(begin, end - begin));
        if (!b || *b < 1 || *b > 16)
            throw std::invalid_argument(
                "bits=" + text + " must be a list of integers from 1 to 16, such as 6/6/8/8");
        bits.push_back(*b);
        begin = end + 1;
    }
    return bits;
}

// The levels 0, 1, ..., 2^bits - 1.
LevelTable whole_numbers(int bits) {
    Row codes(std::size_t{1} << bits);
    for (std::size_t q = 0; q < codes.size(); ++q) codes[q] = static_cast<double>(q);
    return LevelTable(std::move(codes));
}

// The minimum and the maximum of a row.
Row extremes(const RowReader& x) {
    Row ends(2, 0.0);
    bool first = true;
    for_runs(x, std::max<std::size_t>(x.size, 1), [&](std::size_t, std::span<const double> part) {
        const auto [low, high] = std::minmax_element(part.begin(), part.end());
        if (first || *low < ends[0]) ends[0] = *low;
        if (first || *high >= ends[1]) ends[1] = *high;
        first = false;
    });
    return ends;
}

void encode_affine(const RowPiece& p, const LevelTable& codes, double min_scale, int random_bits,
                   Message& m) {
    const double min = p.measured[0], range = p.measured[1] - min;
    thread_local Row above;
    above.resize(p.x.size());
    for (std::size_t i = 0; i < above.size(); ++i) above[i] = p.x[i] - min;
    encode_levels(m, above, codes, std::max(range / codes.levels().back(), min_scale),
                  LevelRule::stochastic, p.stream(random_bits), p.packs(), p.place.first);
    for (double& y : m.values) y += min;
    m.side_bits = m.tensor_bits = 64;
}

constexpr std::size_t window = 5;
constexpr long losses_in_scale = 10;

struct Memory {
    std::size_t turns = 0;  // number of turning points so far
    double epsilon = 0.0;
    long losses_seen = 0;
    double first_losses = 0.0;  // sum of the first 10 losses
    std::vector<double> losses;

    void fields(Fields& f) {
        f.numbers("indicator", turns, epsilon, losses_seen, first_losses);
        f.row("losses", losses);
    }
};
Memory& memory_of(State& state, double epsilon) { return state.of(Memory{0, epsilon, 0, 0.0, {}}); }

void watch(Memory& m, double loss, double alpha, std::size_t widths) {
    if (m.turns + 1 >= widths) return;
    if (++m.losses_seen <= losses_in_scale) m.first_losses += loss;
    if (m.losses.size() == window) m.losses.erase(m.losses.begin());
    m.losses.push_back(loss);
    const double scale =
        m.first_losses / static_cast<double>(std::min(m.losses_seen, losses_in_scale));
    const bool moves = std::any_of(m.losses.begin(), m.losses.end(), [&](double l) {
        return std::abs(l - loss) / scale > m.epsilon;
    });
    if (m.losses.size() < window || moves) return;
    if (++m.turns <= 2) m.epsilon *= alpha;
    m.losses.clear();
}

struct Width {
    int bits = 1;

    void fields(Fields& f) { f.numbers("bits", bits); }
};

}  // namespace

SchemeDefinition fractrain_definition() {
    return {
        .class_name = "FracTrain",
        .summary =
            "affine integers per tensor, wider from turning point to turning point of the loss",
        .source = "Fu et al., FracTrain, NeurIPS 2020 (arXiv:2012.13113)",
        .needs = "gradients and loss of consecutive steps",
        .keys = {{"bits", "6/6/8/8", "widths, one per stage, 1 to 16"},
                 {"epsilon", "0.05", "losses closer than this share of the first ones' mean stall"},
                 {"alpha", "0.3", "factor on epsilon at the first and second turning point"},
                 {"least_scale", "1e-8", "the minimum distance of two codes"},
                 {"random_bits", "32", "random bits of stochastic rounding, 1 to 53"},
                 correlated_key},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            const std::vector<int> widths = schedule(arguments.text("bits"));
            const double epsilon = arguments.number("epsilon", 0.0),
                         alpha = arguments.number("alpha", 0.0);
            const double min_scale = arguments.number("least_scale", 0.0);
            const int random_bits = static_cast<int>(arguments.integer("random_bits", 1, 53));
            SchemeParts scheme;
            scheme.grid = "affine:" + arguments.text("bits");
            scheme.encoding.draws = true;
            scheme.needs = {"loss"};
            std::map<int, LevelTable> tables;  // the key is the width of a code in bits
            for (const int bits : widths) tables.try_emplace(bits, whole_numbers(bits));
            scheme.choice.select = [widths, epsilon](const Selection& s) {
                Parameters theta;
                theta.extra.of<Width>().bits = widths.at(memory_of(s.state, epsilon).turns);
                return theta;
            };
            scheme.choice.measure = [](const WorkerRow& r) { return extremes(r.x); };
            scheme.encoding.encode = [min_scale, random_bits, tables](const RowPiece& p,
                                                                      Message& m) {
                encode_affine(p, tables.at(p.theta.of<Width>().bits), min_scale, random_bits, m);
            };
            scheme.memory.end = [epsilon, alpha, count = widths.size()](const TrainingStep& step,
                                                                        State& state) {
                watch(memory_of(state, epsilon), step.loss, alpha, count);
            };
            return scheme;
        }};
}

}  // namespace apscope::detail
