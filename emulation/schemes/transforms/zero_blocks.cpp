// zero_blocks: blocks of consecutive elements that are all zero are not sent; the others are sent
// unchanged. The scheme is lossless, and shows how many bits a gradient's own zeros save.
#include <algorithm>

#include "core/bits.h"
#include "core/parse.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

void encode(const RowPiece& p, std::size_t block, Message& m) {
    const std::span<const double> x = p.x;
    m.prepare(x.size(), false, false);
    BitWriter bits(p.packs());
    for (std::size_t begin = 0; begin < x.size(); begin += std::min(block, x.size() - begin)) {
        const std::span<const double> part = x.subspan(begin, std::min(block, x.size() - begin));
        const bool any = std::any_of(part.begin(), part.end(), [](double v) { return v != 0.0; });
        bits.put(any, 1);
        m.payload_bits += 1 + (any ? 32 * part.size() : 0);
        for (std::size_t i = 0; i < part.size(); ++i) {
            const auto value = static_cast<float>(part[i]);
            m.values[begin + i] = any ? static_cast<double>(value) : 0.0;
            if (any && p.packs()) bits.put(bits_cast<std::uint32_t>(value), 32);
        }
    }
    if (p.packs()) m.payload = bits.take();
}

}  // namespace

SchemeDefinition zero_blocks_definition() {
    return {.class_name = "ZeroBlocks",
            .summary = "lossless: blocks of zeros are left out, the others are sent as fp32",
            .source =
                "Fei et al., Efficient Sparse Collective Communication (OmniReduce), SIGCOMM 2021",
            .needs = "gradients",
            .keys = {{"block", "256", "consecutive elements of a block"}},
            .build = [](const SchemeArguments& arguments) -> SchemeParts {
                const auto block =
                    static_cast<std::size_t>(arguments.integer("block", 1, largest_count));
                return {.grid = "sparse:fp32",
                        .topology = std::string(reductions::linear),
                        .run = block,
                        .encoding = {.encode = [block](const RowPiece& p, Message& m) {
                            encode(p, block, m);
                        }}};
            }};
}

}  // namespace apscope::detail
