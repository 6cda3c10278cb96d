// zero_blocks: blocks of consecutive elements that hold nothing but zeros are not sent; the others go as
// they are. Lossless: what it shows is how many bits a gradient's own zeros save.
#include "core/bits.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

Message encode(const TrainingStep& step, std::span<const double> x, std::size_t block) {
    Message m;
    BitWriter bits;
    for (std::size_t begin = 0; begin < x.size(); begin += block) {
        const std::span<const double> part = x.subspan(begin, std::min(block, x.size() - begin));
        const bool any = std::any_of(part.begin(), part.end(), [](double v) { return v != 0.0; });
        bits.put(any, 1);
        m.payload_bits += 1 + (any ? 32 * part.size() : 0);
        for (const double v : part) {
            const auto value = static_cast<float>(v);
            m.values.push_back(any ? static_cast<double>(value) : 0.0);
            if (any && step.packs) bits.put(bits_cast<std::uint32_t>(value), 32);
        }
    }
    if (step.packs) m.payload = bits.take();
    return m;
}

}  // namespace

SchemeDefinition zero_blocks_definition() {
    return {.class_name = "ZeroBlocks",
            .summary = "blocks of zeros are left out, the rest is sent as fp32: lossless",
            .source = "Fei et al., Efficient Sparse Collective Communication (OmniReduce), SIGCOMM 2021",
            .needs = "gradients",
            .keys = {{"block", "256", "consecutive elements of a block"}},
            .build = [](const SchemeArguments& arguments) -> SchemeKind {
        const auto block = static_cast<std::size_t>(arguments.integer("block", 1, 1L << 40));
        TensorScheme t;
        t.grid = "sparse:fp32";
        t.topology = reductions::linear;
        t.encode = [block](const TrainingStep& step, const Parameters&, std::span<const double> x, int) { return encode(step, x, block); };
        return t;
    }};
}

}  // namespace apscope::detail
