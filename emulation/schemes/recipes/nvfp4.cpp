// nvfp4: 4-bit elements (0, .5, 1, 1.5, 2, 3, 4, 6), an e4m3 scale for every 16 elements, and an
// fp32 scale for the tensor.
//
//      S = min(fl32(6 * 448 / amax), FLT_MAX)    amax of the tensor, with agree=max over all
//                                                workers; with tensor_scale=false, S = 1
//      d = e4m3(fl32(amax of 16 * fl32(S / 6)))  the key `scale` gives another format instead of
//                                                e4m3, whose largest number replaces 448
//      q = e2m1(x / (d / S))                     in fp32, clipped to 6
//      y = fl32(fl32(q d) / S)                   gathered, added in fp32
//
// With rht, each group of 16 elements, padded with zeros, is rotated by diag(signs) H16 / 4 before
// rounding, and rotated back afterwards; the rotation spreads a large element over 16 elements.
// With four_over_six, S has 256 in place of 448, and each block is also encoded with the scale 1.5
// d, which maps the block's amax to 4 instead of 6. The block is sent with the scale that has the
// smaller squared (mse) or absolute (mae) error; at a tie, with d.
//
// With `bucket`, amax and blocks are those of the array of the tensor's bucket. Elements of a
// neighbouring tensor in the same group of 16 use the random words before the first or after the
// last random word of the tensor.
//
// With nonfinite=transformer_engine, NaNs and infinities are treated as in Transformer Engine. With
// nonfinite=apart, NaNs and infinities do not count in amax (section 11 of docs/definitions.md);
// with rht, which would spread them, they bypass the scheme.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/named_formats.h"
#include "emulation/schemes/codecs/block_row.h"
#include "emulation/schemes/codecs/rotation.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/shared/buckets.h"

namespace apscope::detail {

namespace {

constexpr std::size_t group = Rotation::size;

struct Agreed {
    double amax = 0.0;  // maximum over all workers

    void fields(Fields& f) { f.numbers("amax", amax); }
};

enum class FourOverSix { off, mse, mae };

// Takes, for each block, the better of two encodings of x that differ only in the block's scale.
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

// Encodes a piece of a row, which is already rotated if the scheme rotates.
struct Encoder {
    BlockGrid grid;
    FourOverSix metric;

    void operator()(Message& m, std::span<const double> x, const OwnPart& part,
                    const TrainingStep& step, BlockSettings settings) const {
        const auto rounded = [&] { return encode_block_row(x, grid, settings); };
        const auto state = [&](const BlockRow& row) { state_blocks(m, row, x, part, grid, step); };
        if (metric == FourOverSix::off) return state(rounded());
        settings.scale_range = 256.0f;
        settings.divides_first = true;
        BlockRow six = rounded();
        settings.stretch = 1.5f;
        state(better(std::move(six), rounded(), x, metric == FourOverSix::mse));
        // The chosen scale depends on the random words, so the moments are unknown.
        std::ranges::fill(m.bias, std::nan(""));
        std::ranges::fill(m.variance, std::nan(""));
    }
};

SchemeParts parts_of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 2> agreements{"max", "local"};
    // The texts have the order of enum FourOverSix.
    constexpr std::array<std::string_view, 3> metrics{"false", "mse", "mae"};
    const Projection projection{parse_rounding(arguments.text("rounding")), Overflow::saturate,
                                static_cast<int>(arguments.integer("random_bits", 1, 64))};
    require_counted(projection.rounding, "schemes");
    BlockFormat format = parse_block_format("nvfp4");
    const FloatFormat usual = format.scale;
    format.scale = parse_format(arguments.text("scale"));
    format.tensor_scale = arguments.flag("tensor_scale");
    format.nonfinite = parse_block_nonfinite(arguments.text("nonfinite"));
    const Encoder encoder{{format, projection},
                          arguments.one_of<FourOverSix>("four_over_six", metrics)};
    if (encoder.metric != FourOverSix::off && (format.scale != usual || !format.tensor_scale)) {
        throw std::invalid_argument("four_over_six=" + arguments.text("four_over_six") +
                                    " aims at 256, for e4m3fn scales under a tensor "
                                    "scale; use it with scale=e4m3fn "
                                    "and tensor_scale=true");
    }
    const bool agrees = format.tensor_scale && arguments.choice("agree", agreements) == "max",
               turns = arguments.flag("rht"),
               infinities = format.nonfinite == BlockNonfinite::transformer_engine;
    const auto amax = [=](const TrainingStep& step, const RowReader& x, std::size_t worker) {
        if (step.bucket == nullptr) return amax_of(x, turns, infinities);
        const Bucket::ArrayRow& array = step.bucket->row(worker);
        return step.bucket->totals->of(array.worker,
                                       [&] { return amax_of(array.seen, turns, infinities); });
    };
    const std::size_t bucket = bucket_of(arguments);
    const auto encode = [=](const RowPiece& p, Message& m) {
        BlockSettings settings{p.stream(projection.random_bits), {}};
        if (format.tensor_scale)
            settings.amax = narrow_row(Row{agrees ? p.theta.of<Agreed>().amax : p.measured[0]})[0];
        const BlocksAround around =
            blocks_around(p.step, RowReader::of(p.x), p.place.size, p.worker, group);
        const std::span<const double> x = around.row.read(0, around.row.size);
        settings.first_element = p.place.first - around.lead;
        const Row turned = turns ? rotated(x) : Row();
        // The message also has the zeros that pad the last group.
        const std::size_t end = turns && around.ends ? turned.size() : around.lead + p.x.size();
        encoder(m, turns ? turned : x,
                {around.lead, end - around.lead, around.begun, around.starts}, p.step, settings);
        if (turns) rotate_back(m.values, x.size());
        if (turns && !m.variance.empty()) {
            rotate_back(m.bias, x.size());
            rotate_variance_back(m.variance, x.size());
        }
        crop(m, around.lead, p.x.size());
    };
    std::optional<BlockEncoding> blocks;
    if (encoder.metric == FourOverSix::off && bucket == 0 &&
        format.nonfinite == BlockNonfinite::apart)
        blocks = {format, projection, agrees, turns};
    SchemeParts scheme{.grid = encoder.grid.format.name(),
                       // The workers agree on the tensor's amax, not on the scales of blocks.
                       .transport = {.code_bits = format.element.storage_bits(),
                                     .scale_bits = format.scale.storage_bits(),
                                     .whole_bits = format.tensor_scale ? 32 : 0,
                                     .unit = group,
                                     .agreed_bits = agrees ? std::uint64_t{32} : 0},
                       .run = bucket != 0 ? whole_row : group,
                       .block = format.tensor_scale ? 0 : group,
                       .bucket = bucket,
                       .basis = {.turns_in_encode = turns},
                       .encoding = {.encode = encode,
                                    .blocks = blocks,
                                    .draws = is_stochastic(projection.rounding),
                                    .sees_special = infinities || !turns}};
    if (agrees) {
        scheme.choice.select = [amax](const Selection& s) {
            Parameters theta;
            double& agreed = theta.extra.of<Agreed>().amax;
            for (std::size_t w = 0; w < s.rows.size(); ++w)
                agreed = std::max(agreed, amax(s.step, s.rows[w], w));
            return theta;
        };
    } else if (format.tensor_scale) {
        scheme.choice.measure = [amax](const WorkerRow& r) {
            return Row{amax(r.step, r.x, r.worker)};
        };
    }
    return scheme;
}

}  // namespace

SchemeDefinition nvfp4_definition() {
    return {.class_name = "NVFP4",
            .summary = "4-bit floats in blocks of 16 under e4m3 scales, stochastic rounding, "
                       "random Hadamard transform; gathered, fp32",
            .source = "NVIDIA, Pretraining LLMs with NVFP4 (arXiv:2509.25149); Transformer Engine, "
                      "recipe NVFP4BlockScaling",
            .needs = "gradients",
            .keys = {{"rounding", "stochastic", "how an element is rounded"},
                     {"scale", "e4m3fn", "format of the block scales, such as e5m3fnu"},
                     {"tensor_scale", "true", "false: no fp32 scale of the tensor"},
                     {"nonfinite", "apart", "infinities and NaNs: apart, or transformer_engine"},
                     {"rht", "true", "false: no Hadamard transform"},
                     {"four_over_six", "false", "mse or mae: each block may map its amax to 4"},
                     {"agree", "max", "the tensor's amax: max over the workers, or local"},
                     bucket_key(),
                     {"random_bits", "32", "random bits of stochastic rounding, 1 to 64"},
                     correlated_key},
            .build = parts_of};
}

}  // namespace apscope::detail
