// nvfp4: 4-bit elements (0, .5, 1, 1.5, 2, 3, 4, 6), an e4m3 scale for 16 of them, an fp32 scale for the tensor.
//
//      S = min(fl32(6 448 / amax), FLT_MAX)      amax over the tensor, agree=max: and over all workers
//      d = e4m3(fl32(amax of 16 * fl32(S / 6)))  q = e2m1(x / (d / S)), in fp32, clipped to 6
//      y = fl32(fl32(q d) / S)                   gathered, added in fp32
//
// rht: 16 elements at a time, padded with zeros, are turned before by diag(signs) H16 / 4 and back after; that
// spreads a spike over 16 elements. four_over_six: S aims at 256, each block also tries 1.5 d, which puts its
// amax on 4, and keeps what has the smaller squared (mse) or absolute (mae) error; a tie keeps 6.
#include <algorithm>
#include <array>
#include <cmath>

#include "emulation/schemes/codecs/block_row.h"
#include "emulation/schemes/codecs/hadamard.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

constexpr std::size_t group = 16;
constexpr std::array<double, group> signs{1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1};

void multiply_signs(Row& whole_groups) {
    for (std::size_t first = 0; first < whole_groups.size(); first += group) {
        for (std::size_t l = 0; l < group; ++l) whole_groups[first + l] *= signs[l];
    }
}

Row turn(const Row& x) {
    Row turned = x;
    turned.resize((x.size() + group - 1) / group * group, 0.0);
    multiply_signs(turned);
    hadamard(turned, group);
    return turned;
}

Row turn_back(const TrainingStep& step, const Row& turned) {
    Row x = turned;
    hadamard(x, group);
    multiply_signs(x);
    x.resize(elements_of(step));
    return x;
}

// Every turned element is a sum of its group's 16, each times 1/4 or -1/4.
Row turn_back_variance(const TrainingStep& step, const Row& turned) {
    Row variance = turned;
    for (std::size_t first = 0; first < variance.size(); first += group) {
        double sum = 0.0;
        for (std::size_t l = 0; l < group; ++l) sum += turned[first + l];
        std::fill_n(variance.begin() + static_cast<std::ptrdiff_t>(first), group, sum / static_cast<double>(group));
    }
    variance.resize(elements_of(step));
    return variance;
}

// The fp32 sum, in rank order, of what receivers read after turning back; in the turned basis, as a sum is expected.
Row gather_back(const TrainingStep& step, const std::vector<Message>& sent) {
    std::vector<Message> back(sent.size());
    for (std::size_t w = 0; w < sent.size(); ++w) back[w].values = turn_back(step, sent[w].values);
    Row sum;
    gathered_sum(back, sum);
    return turn(sum);
}

struct Agreed {
    double amax = 0.0;  // of all workers

    void fields(Fields& f) { f.numbers("amax", amax); }
};

enum class FourOverSix { off, mse, mae };

// Per block the better of two rows that differ in nothing but the block's scale.
BlockRow better(BlockRow six, const BlockRow& four, std::span<const double> x, bool squares) {
    for (std::size_t b = 0; b < six.scales.size(); ++b) {
        const std::size_t end = std::min((b + 1) * group, x.size());
        double error_six = 0.0, error_four = 0.0;
        for (std::size_t i = b * group; i < end; ++i) {
            const double e6 = std::abs(six.values[i] - x[i]), e4 = std::abs(four.values[i] - x[i]);
            error_six += squares ? e6 * e6 : e6;
            error_four += squares ? e4 * e4 : e4;
        }
        if (!(error_four < error_six)) continue;
        six.scales[b] = four.scales[b];
        for (std::size_t i = b * group; i < end; ++i) {
            six.codes[i] = four.codes[i];
            six.values[i] = four.values[i];
        }
    }
    return six;
}

Message encode(std::span<const double> x, double amax, const BlockFormat& format, const Projection& projection, FourOverSix metric,
               const RandomStream& stream, bool packs) {
    BlockSettings settings{stream, {}};
    settings.amax = narrow_row(Row{amax})[0];
    if (metric == FourOverSix::off) return block_message(encode_block_row(x, format, projection, settings), x, format, projection, packs);
    settings.scale_range = 256.0f;
    settings.divides_first = true;
    BlockRow row = encode_block_row(x, format, projection, settings);
    settings.stretch = 1.5f;
    row = better(std::move(row), encode_block_row(x, format, projection, settings), x, metric == FourOverSix::mse);
    Message m = block_message(row, x, format, projection, packs);
    if (is_stochastic(projection.rounding)) {  // which scale was kept follows from the words themselves
        m.bias.assign(x.size(), std::nan(""));
        m.variance.assign(x.size(), std::nan(""));
    }
    return m;
}

}  // namespace

SchemeDefinition nvfp4_definition() {
    return {.class_name = "NVFP4",
            .summary = "4-bit floats in blocks of 16 under e4m3 scales, stochastic rounding, random Hadamard transform; gathered, fp32",
            .source = "NVIDIA, Pretraining LLMs with NVFP4 (arXiv:2509.25149); Transformer Engine, recipe NVFP4BlockScaling",
            .needs = "gradients",
            .keys = {{"rounding", "stochastic", "how an element is rounded"},
                     {"rht", "true", "false: no Hadamard transform"},
                     {"four_over_six", "false", "mse or mae: each block may map its amax to 4"},
                     {"agree", "max", "the tensor's amax: max over the workers, or local"},
                     {"random_bits", "32", "random bits of stochastic rounding, 1 to 64"}},
            .build = [](const SchemeArguments& arguments) -> SchemeKind {
        constexpr std::array<std::string_view, 2> agreements{"max", "local"};
        constexpr std::array<std::string_view, 3> metrics{"false", "mse", "mae"};  // as in FourOverSix
        const BlockFormat format = parse_block_format("nvfp4");
        const Projection projection{parse_rounding(arguments.text("rounding")), Overflow::saturate,
                                    static_cast<int>(arguments.integer("random_bits", 1, 64))};
        require_counted(projection.rounding, "schemes");
        validate(projection, format.element);
        const bool agrees = arguments.choice("agree", agreements) == "max";
        TensorScheme t;
        t.grid = format.name();
        t.draws = is_stochastic(projection.rounding);
        t.transport.agreed_bits = agrees ? 32 : 0;  // the tensor's amax; block scales are each worker's own
        if (arguments.flag("rht")) {
            t.forward = [](const TrainingStep&, const State&, const Rows& rows) {
                Rows turned;
                for (const Row& row : rows) turned.push_back(turn(row));
                return turned;
            };
            t.inverse = [](const TrainingStep& step, const State&, const Row& row) { return turn_back(step, row); };
            t.inverse_variance = [](const TrainingStep& step, const State&, const Row& row) { return turn_back_variance(step, row); };
            t.reduce = [](const TrainingStep& step, State&, const Parameters&, const std::vector<Message>& sent, const Topology&) {
                return gather_back(step, sent);
            };
        }
        t.select = [](const TrainingStep&, State&, const Rows& rows) {
            Parameters theta;
            theta.own.of<Agreed>().amax = amax_of(rows);
            return theta;
        };
        t.encode = [=, metric = arguments.one_of<FourOverSix>("four_over_six", metrics)](const TrainingStep& step, const Parameters& theta,
                                                                                         std::span<const double> x, int worker) {
            return encode(x, agrees ? theta.of<Agreed>().amax : amax_of(x), format, projection, metric, step.stream(worker, projection.random_bits),
                          step.packs);
        };
        return t;
    }};
}

}  // namespace apscope::detail
