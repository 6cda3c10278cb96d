// mx: blocks of consecutive elements of the flat tensor under a power of two each (OCP Microscaling), every
// worker its own scales; gathered, decoded and added in fp32. The block formats are apscope.BlockFormat's.
#include <array>

#include "core/float_environment.h"
#include "emulation/blocks.h"
#include "emulation/codecs/bits.h"
#include "emulation/scheme.h"

namespace apscope {

namespace {

struct Mx {
    BlockFormat format;
    Projection projection;

    Message encode(const TensorStep& step, std::span<const double> x, int worker) const {
        const BlockShape shape{1, x.size(), 1};
        // The block loops draw by seed: one of this tensor's, this step's and this worker's own.
        const PhiloxBlock b = philox({{static_cast<std::uint32_t>(worker), 0, 0, stage_and_hop(Stage::wire, 0)}}, step.key);
        const std::uint64_t seed = std::uint64_t{b.word[1]} << 32 | b.word[0];
        std::vector<std::uint8_t> codes(x.size()), scales(shape.scales(format));
        std::vector<float> values(x.size());
        encode_blocks(x, codes, scales, shape, format, projection, seed);
        decode_blocks(codes, scales, 1.0f, values, shape, format);
        Message m;
        m.values.assign(values.begin(), values.end());
        m.payload_bits = x.size() * static_cast<std::uint64_t>(format.element.storage_bits());
        m.side_bits = scales.size() * static_cast<std::uint64_t>(format.scale.storage_bits());
        if (step.packs) {
            BitWriter bits;
            for (const std::uint8_t code : codes) bits.put(code, format.element.storage_bits());
            m.payload = bits.take();
        }
        return m;
    }
};

}  // namespace

SchemeDefinition mx_definition() {
    return {"mx",
            "MX",
            "blocks under a power of two each: MXFP8, MXFP6, MXFP4, MXINT8, BFP; gathered and added in fp32",
            "OCP Microscaling Formats (MX) Specification v1.0; Rouhani et al. (arXiv:2310.10537)",
            "gradients",
            false,
            {{"block_format", "mxfp8_e4m3", "a block format with power-of-two scales: mxfp8_e5m2, mxfp6_e3m2, mxfp4, mxint8, bfp:8:16, ..."},
             {"rule", "floor", "of the scale: floor, ceil, rceil or even"},
             {"rounding", "ties_to_even", "how an element is rounded"},
             {"random_bits", "32", "random bits of stochastic rounding, 1 to 64"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                constexpr std::array<std::string_view, 4> rules{"floor", "ceil", "rceil", "even"};
                Mx mx;
                mx.format = parse_block_format(arguments.text("block_format") + ",rule=" + std::string(arguments.choice("rule", rules)));
                mx.projection.rounding = parse_rounding(arguments.text("rounding"));
                mx.projection.overflow = Overflow::saturate;
                mx.projection.random_bits = static_cast<int>(arguments.integer("random_bits", 1, 64));
                require_counted(mx.projection.rounding, "schemes");
                TensorScheme t;
                t.grid = mx.format.name();
                t.draws = is_stochastic(mx.projection.rounding);
                t.encode = [mx](const TensorStep& step, const State&, std::span<const double> x, int worker) { return mx.encode(step, x, worker); };
                scheme.tensor = std::make_shared<const TensorScheme>(std::move(t));
            }};
}

}  // namespace apscope
