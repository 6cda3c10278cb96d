// nvfp4: four-bit elements under two levels of scales, gradients rounded stochastically, after a random-sign
// Hadamard rotation of every sixteen elements that spreads outliers (emulation/codecs/nvfp4.h).
//
//      x' = x D H      D = diag(signs), fixed; H = Walsh-Hadamard / 4, on runs of 16, zeros behind the last
//
// The tensor's amax is agreed by MAX over the workers. Gathered, decoded, turned back and added in fp32.
#include <array>

#include "emulation/codecs/hadamard.h"
#include "emulation/codecs/nvfp4.h"
#include "emulation/codecs/statistics.h"
#include "emulation/scheme.h"

namespace apscope {

namespace {

constexpr std::array<double, 16> signs{1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1};

void turn(Row& row, bool back) {
    for (std::size_t begin = 0; begin < row.size(); begin += 16) {
        const std::span<double> part = std::span(row).subspan(begin, 16);
        for (std::size_t i = 0; i < 16 && !back; ++i) part[i] *= signs[i];
        hadamard(part);
        for (std::size_t i = 0; i < 16 && back; ++i) part[i] *= signs[i];
    }
}

void rotate(TensorScheme& t) {
    t.keeps_norm = true;
    t.forward = [](const TensorStep&, const State&, const Rows& rows) {
        Rows turned = rows;
        for (Row& row : turned) {
            row.resize((row.size() + 15) / 16 * 16, 0.0);
            turn(row, false);
        }
        return turned;
    };
    t.inverse = [](const TensorStep& step, const State&, const Row& row) {
        Row back = row;
        turn(back, true);
        std::size_t n = 1;
        for (const std::int64_t axis : step.shape) n *= static_cast<std::size_t>(axis);
        back.resize(std::min(n, back.size()));
        return back;
    };
}

}  // namespace

SchemeDefinition nvfp4_definition() {
    return {"nvfp4",
            "NVFP4",
            "e2m1 under e4m3 block scales and an fp32 tensor scale, rotated, stochastic; gathered, fp32",
            "NVIDIA, Pretraining Large Language Models with NVFP4 (arXiv:2509.25149); Transformer Engine's NVFP4BlockScaling",
            "gradients",
            false,
            {{"rht", "true", "rotate runs of 16 by random signs and a Hadamard matrix: true or false"},
             {"rounding", "stochastic", "how an element is rounded"},
             {"four_over_six", "false", "blocks may bring their amax to 4 instead of 6: true or false"},
             {"random_bits", "32", "random bits of stochastic rounding, 1 to 64"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                constexpr std::array<std::string_view, 2> truths{"false", "true"};
                Nvfp4 codec;
                codec.projection.rounding = parse_rounding(arguments.text("rounding"));
                codec.projection.overflow = Overflow::saturate;
                codec.projection.random_bits = static_cast<int>(arguments.integer("random_bits", 1, 64));
                require_counted(codec.projection.rounding, "schemes");
                codec.four_over_six = arguments.choice("four_over_six", truths) == "true";
                TensorScheme t;
                t.grid = "nvfp4";
                t.draws = is_stochastic(codec.projection.rounding);
                if (arguments.choice("rht", truths) == "true") rotate(t);
                t.select = [codec](const TensorStep&, State&, const Rows& x) { return State{{"scale", {codec.tensor_scale(amax_of(x))}}}; };
                t.encode = [codec](const TensorStep& step, const State& theta, std::span<const double> x, int worker) {
                    return codec.encode(x, static_cast<float>(number(theta, "scale")), step.stream(worker, codec.projection.random_bits), step.packs);
                };
                scheme.tensor = std::make_shared<const TensorScheme>(std::move(t));
            }};
}

}  // namespace apscope
