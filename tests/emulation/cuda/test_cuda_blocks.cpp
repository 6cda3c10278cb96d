// A GPU thread's work on a block, run here on the CPU, gives the results of emulation/blocks.
#include <gtest/gtest.h>

#include <vector>

#include "emulation/cuda/blocks/blocks_choice.h"
#include "tests/support/cuda_inputs.h"

namespace apscope::detail {
namespace {

// Numbers in a block format: values, codes, scales and the tensor scale.
struct Encoded {
    Encoded(const std::vector<float>& in, std::size_t blocks)
        : values(in.size(), -1.0f), codes(in.size()), scales(blocks) {}

    std::vector<float> values;
    std::vector<std::uint8_t> codes, scales;
    float tensor = 0;
};

Encoded by_library(const std::vector<float>& in, const BlockShape& shape, const BlockFormat& format,
                   const Projection& projection, std::uint64_t seed) {
    Encoded made(in, shape.scales(format));
    quantize_blocks(in, made.values, shape, format, projection, seed);
    made.tensor = encode_blocks(in, made.codes, made.scales, shape, format, projection, seed);
    return made;
}

Encoded by_steps(const std::vector<float>& in, const BlockShape& shape, const BlockFormat& format,
                 const Projection& projection, std::uint64_t seed) {
    Encoded made(in, shape.scales(format));
    std::uint32_t amax = 0;
    run_on_cpu(AmaxStep{in.data(), {in.size(), 0}, amax_limit(format), &amax});
    const EncodeBlocksStep both =
        make_encode_blocks(in.data(), made.values.data(), made.codes.data(), made.scales.data(),
                           shape, format, projection, seed, &amax);
    run_on_cpu(both);
    made.tensor = tensor_scale(both.cast, &amax).value;
    return made;
}

void expect_blocks(const std::vector<float>& in, const BlockShape& shape, const BlockFormat& format,
                   const Projection& projection) {
    constexpr std::uint64_t seed = 21;
    const Encoded expected = by_library(in, shape, format, projection, seed);
    const Encoded found = by_steps(in, shape, format, projection, seed);
    const std::string what = format.name() + " " + std::string(to_string(projection.rounding)) +
                             " inner=" + std::to_string(shape.inner);
    EXPECT_EQ(differing(expected.values, found.values), 0u) << what;
    EXPECT_EQ(differing(expected.codes, found.codes), 0u) << what;
    EXPECT_EQ(differing(expected.scales, found.scales), 0u) << what;
    EXPECT_EQ(expected.tensor, found.tensor) << what;
    std::vector<float> decoded(in.size(), -1.0f);
    unsigned long long wide[2] = {~0ull, ~0ull};
    run_on_cpu(make_decode_blocks(found.codes.data(), found.scales.data(), expected.tensor,
                                  decoded.data(), shape, format, &wide[0], &wide[1]));
    EXPECT_EQ(differing(expected.values, decoded), 0u) << what;
    EXPECT_EQ(wide[0] & wide[1], ~0ull);
}

std::vector<BlockFormat> formats() {
    std::vector<BlockFormat> all;
    for (const NamedBlockFormat& row : named_block_formats()) {
        all.push_back(row.format);
        if (row.format.rule == ScaleRule::ratio) {
            all.push_back(row.format);
            all.back().nonfinite = BlockNonfinite::transformer_engine;
            continue;
        }
        for (const ScaleRule rule : {ScaleRule::floor, ScaleRule::ceil, ScaleRule::rceil,
                                     ScaleRule::even, ScaleRule::nearest}) {
            all.push_back(row.format);
            all.back().rule = rule;
            all.back().block_size = 7;
            all.back().nonfinite = static_cast<BlockNonfinite>(all.size() % 4);
        }
    }
    all.push_back(parse_block_format("bfp:8:16"));
    all.push_back(parse_block_format("blocks:int4,block=3"));
    return all;
}

TEST(CudaBlocks, EveryNamedFormatRuleAndMode) {
    for (const BlockFormat& f : formats()) {
        for (int mode = 0; mode < rounding_mode_count; ++mode) {
            const Projection p{static_cast<RoundingMode>(mode), Overflow::saturate};
            if (p.rounding == RoundingMode::stochastic_exact) continue;
            expect_blocks(random_floats(4 * 211, 6, 1), {4, 211, 1}, f, p);
            expect_blocks(random_floats(2 * 65 * 3, 6, 2), {2, 65, 3}, f, p);
        }
    }
}

TEST(CudaBlocks, EveryBinadeSubnormalsAndSpecialValues) {
    for (const BlockFormat& f : formats()) {
        expect_blocks(edge_inputs(), {1, edge_inputs().size(), 1}, f,
                      {RoundingMode::ties_to_even, Overflow::saturate});
        std::vector<float> zeros(50, 0.0f);
        zeros[3] = -0.0f;
        expect_blocks(zeros, {1, 50, 1}, f, {RoundingMode::ties_to_even, Overflow::saturate});
        std::vector<float> finite;
        for (const float x : edge_inputs()) {
            if (x - x == 0.0f) finite.push_back(x);
        }
        expect_blocks(finite, {1, finite.size(), 1}, f,
                      {RoundingMode::ties_to_even, Overflow::saturate});
    }
}

TEST(CudaBlocks, CodesThatAreTooWideAreFound) {
    const BlockFormat f = parse_block_format("mxfp4");
    std::vector<std::uint8_t> codes(64, 1), scales(2, 127);
    codes[40] = codes[33] = 16;
    std::vector<float> out(64);
    unsigned long long wide[2] = {~0ull, ~0ull};
    run_on_cpu(make_decode_blocks(codes.data(), scales.data(), 1.0f, out.data(), {1, 64, 1}, f,
                                  &wide[0], &wide[1]));
    EXPECT_EQ(wide[0], 33u);
    EXPECT_EQ(wide[1], ~0ull);
}

}  // namespace
}  // namespace apscope::detail
