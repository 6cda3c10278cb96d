// current_scaling: every tensor, or every block of consecutive elements, is scaled so that its own amax
// becomes the format's largest value.
//
//      scale = fl32(M / amax), at most the largest fp32 number; 1 for zeros
//      pow2: the scale's fraction is cut off, which leaves amax scale in (M / 2, M]
//
// agree=max: one scale for all workers, from the amax agreed by MAX. agree=local, and blocks: every worker
// its own. Codes are gathered, decoded and added in fp32: no headroom is needed for sums.
#include <array>
#include <cmath>
#include <limits>

#include "core/bits.h"
#include "emulation/codecs/bits.h"
#include "emulation/codecs/float_row.h"
#include "emulation/codecs/statistics.h"
#include "emulation/schemes/float_scheme.h"

namespace apscope {

namespace {

struct Current {
    FloatGrid grid;
    std::size_t block;  // 0: the tensor
    bool pow2;

    double scale(double amax) const {
        if (amax == 0.0) return 1.0;
        // amax of compensated values need not be an fp32 number: a larger one is as safe.
        float single = static_cast<float>(amax);
        if (single < amax) single = std::nextafter(single, std::numeric_limits<float>::infinity());
        float s = static_cast<float>(grid.format.largest()) / single;
        if (std::isinf(s)) s = std::numeric_limits<float>::max();
        return pow2 ? bits_cast<float>(bits_cast<std::uint32_t>(s) & 0xFF800000u) : s;
    }
    Message encode(const TensorStep& step, std::span<const double> x, int worker) const {
        const std::size_t unit = block == 0 ? std::max<std::size_t>(x.size(), 1) : block;
        const RandomStream stream = step.stream(worker, grid.projection.random_bits);
        Message m;
        for (std::size_t begin = 0; begin < x.size(); begin += unit) {
            const std::span<const double> part = x.subspan(begin, std::min(unit, x.size() - begin));
            const Message made = encode_float_row(part, scale(amax_of(part)), grid, stream, false, begin);
            const auto append = [](Row& to, const Row& from) { to.insert(to.end(), from.begin(), from.end()); };
            append(m.values, made.values);
            append(m.codes, made.codes);
            append(m.bias, made.bias);
            append(m.variance, made.variance);
            m.side_bits += pow2 ? 8 : 32;
        }
        m.payload_bits = payload_bits(grid, x.size());
        if (step.packs) m.payload = pack_float_codes(m.codes, grid.format);
        return m;
    }
};

}  // namespace

SchemeDefinition current_scaling_definition() {
    return {"current_scaling",
            "CurrentScaling",
            "a scale per tensor or block that brings its own amax to the format's largest value; gathered, fp32",
            "NVIDIA Transformer Engine, recipes Float8CurrentScaling and Float8BlockScaling",
            "gradients",
            true,
            gathered_float_keys({{"pow2", "false", "false: a real scale; true: a power of two"},
                                 {"agree", "max", "max: one scale for all workers; local: each its own"},
                                 {"block", "0", "consecutive elements that share a scale, each worker its own; 0: the tensor"}},
                                "ties_to_even", "saturate"),
            [](const SchemeArguments& arguments, Scheme& scheme) {
                constexpr std::array<std::string_view, 2> truths{"false", "true"}, agreements{"max", "local"};
                build_gathered_float(arguments, scheme);
                const Current c{std::get<FloatGrid>(scheme.grid), static_cast<std::size_t>(arguments.integer("block", 0, 1L << 40)),
                                arguments.choice("pow2", truths) == "true"};
                if (arguments.choice("agree", agreements) == "local" || c.block != 0) {
                    TensorScheme t;
                    t.grid = c.grid.format.name();
                    t.draws = is_stochastic(scheme.grid);
                    t.encode = [c](const TensorStep& step, const State&, std::span<const double> x, int worker) { return c.encode(step, x, worker); };
                    scheme.tensor = std::make_shared<const TensorScheme>(std::move(t));
                    return;
                }
                scheme.side_bits = [bits = c.pow2 ? 8 : 32](std::size_t) { return static_cast<std::uint64_t>(bits); };
                scheme.select = [c](const SelectionInput& input, State&) {
                    std::vector<Decision> decisions;
                    for (const AgreedStatistics& s : input.statistics) decisions.push_back(scale_of(c.scale(s.amax)));
                    return decisions;
                };
            }};
}

}  // namespace apscope
