// A GPU thread's work on a block, run here on the CPU, gives the results of emulation/blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
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

// The arrays begin `skipped` elements after an address that is aligned for any access.
template <class T>
struct Shifted {
    Shifted(std::size_t n, std::size_t skipped) : all(n + skipped + 1), skip(skipped) {}
    T* get() { return all.data() + skip; }
    void read(std::vector<T>& out) { std::copy_n(get(), out.size(), out.begin()); }

    std::vector<T> all;
    std::size_t skip;
};

template <class Step>
constexpr bool is_row_step = false;
template <class Rounding, int Width>
constexpr bool is_row_step<EncodeRowsStep<Rounding, Width>> = true;

// `by_rows` counts the calls that a step for rows serves.
Encoded by_steps(const std::vector<float>& in, const BlockShape& shape, const BlockFormat& format,
                 const Projection& projection, std::uint64_t seed, std::size_t skipped,
                 int& by_rows) {
    Encoded made(in, shape.scales(format));
    Shifted<float> numbers(in.size(), skipped);
    Shifted<std::uint8_t> codes(in.size(), skipped), scales(made.scales.size(), 0);
    std::copy(in.begin(), in.end(), numbers.get());
    std::uint32_t amax = 0;
    const BlockScaling scaling = make_block_scaling(format);
    run_on_cpu(AmaxStep{numbers.get(), in.size(), scaling.counted_below, &amax});
    const BlockWords words = BlockWords::of_array(seed, projection);
    with_encode_blocks(numbers.get(), nullptr, codes.get(), scales.get(), shape, format, projection,
                       words, &amax, [&]<class Step>(const Step& step) {
                           run_on_cpu(step);
                           by_rows += is_row_step<Step> ? 1 : 0;
                       });
    with_encode_blocks(numbers.get(), numbers.get(), nullptr, nullptr, shape, format, projection,
                       words, &amax, [](const auto& step) { run_on_cpu(step); });
    numbers.read(made.values);
    codes.read(made.codes);
    scales.read(made.scales);
    made.tensor = tensor_scale(scaling, &amax).value;
    return made;
}

// Returns whether a step for rows served the call.
bool expect_blocks(const std::vector<float>& in, const BlockShape& shape, const BlockFormat& format,
                   const Projection& projection, std::size_t skipped = 0) {
    constexpr std::uint64_t seed = 21;
    int by_rows = 0;
    const Encoded expected = by_library(in, shape, format, projection, seed);
    const Encoded found = by_steps(in, shape, format, projection, seed, skipped, by_rows);
    const std::string what = format.name() + " " + std::string(to_string(projection.rounding)) +
                             " shape " + std::to_string(shape.outer) + " " +
                             std::to_string(shape.length) + " " + std::to_string(shape.inner) +
                             " from " + std::to_string(skipped);
    EXPECT_EQ(differing(expected.values, found.values), 0u) << what;
    EXPECT_EQ(differing(expected.codes, found.codes), 0u) << what;
    EXPECT_EQ(differing(expected.scales, found.scales), 0u) << what;
    EXPECT_EQ(expected.tensor, found.tensor) << what;
    Shifted<float> decoded(in.size(), skipped);
    Shifted<std::uint8_t> codes(in.size(), skipped);
    std::copy(found.codes.begin(), found.codes.end(), codes.get());
    unsigned long long wide[2] = {~0ull, ~0ull};
    with_decode_blocks(codes.get(), found.scales.data(), expected.tensor, decoded.get(), shape,
                       format, &wide[0], &wide[1], [](const auto& step) { run_on_cpu(step); });
    std::vector<float> values(in.size());
    decoded.read(values);
    EXPECT_EQ(differing(expected.values, values), 0u) << what;
    EXPECT_EQ(wide[0] & wide[1], ~0ull);
    return by_rows != 0;
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

// The formats of the rows' steps: the named ones with every rule, answer to infinities and NaNs and
// block size, and others that have a fast rounding.
std::vector<BlockFormat> row_formats(int block_size) {
    std::vector<BlockFormat> all;
    for (BlockFormat f : formats()) {
        f.block_size = block_size;
        for (int answer = 0; answer < block_nonfinite_count; ++answer) {
            f.nonfinite = static_cast<BlockNonfinite>(answer);
            const bool torchao = f.nonfinite == BlockNonfinite::torchao ||
                                 f.nonfinite == BlockNonfinite::torchao_0_18;
            if (f.rule != ScaleRule::ratio || !torchao) all.push_back(f);
        }
    }
    return all;
}

// The tensor's scale makes 1 / scale of a block 0 or NaN, and so numbers and infinities NaN.
TEST(CudaBlocks, AFactorOfZeroOrNaNMakesNaNs) {
    std::vector<float> x(64, 1.0f);
    x[0] = 1e38f;
    x[2] = 0.0f;
    x[3] = std::numeric_limits<float>::infinity();
    for (const char* name : {"blocks:e4m1fn,scale=e3m0fnb20,block=16,rule=ratio,tensor",
                             "blocks:e4m1fn,scale=e3m0fnb40,block=16,rule=ratio,tensor"})
        EXPECT_TRUE(expect_blocks(x, {1, x.size(), 1}, parse_block_format(name),
                                  {RoundingMode::ties_to_even, Overflow::saturate}))
            << name;
}

TEST(CudaBlocks, RowsOfEveryBlockSizeAndMode) {
    int by_rows = 0;
    for (const int block_size : {16, 32, 64, 128}) {
        const std::vector<BlockFormat> all = row_formats(block_size);
        for (std::size_t k = 0; k < all.size(); ++k) {
            for (int mode = static_cast<int>(k) % 3; mode < rounding_mode_count; mode += 3) {
                Projection p{static_cast<RoundingMode>(mode), Overflow::saturate};
                if (p.rounding == RoundingMode::stochastic_exact) continue;
                for (const int random_bits : {7, 16, 24, 30, 32, 60}) {
                    p.random_bits = random_bits;
                    // The exponents of short rows differ much, those of long rows little.
                    by_rows += expect_blocks(random_floats(3 * 72, 100, 1), {3, 72, 1}, all[k], p);
                    by_rows += expect_blocks(random_floats(517, 6, 2), {1, 517, 1}, all[k], p, 1);
                    if (!is_stochastic(p.rounding)) break;
                }
            }
        }
    }
    EXPECT_GT(by_rows, 11000);
}

TEST(CudaBlocks, RowsOfEveryShapeAndAddress) {
    for (const char* name : {"mxfp8_e4m3", "mxfp4,block=16", "mxint8", "nvfp4",
                             "mxfp6_e2m3,block=3", "mxfp8_e5m2,block=7", "mxfp8_e5m2,block=64"}) {
        for (const RoundingMode mode : {RoundingMode::ties_to_even, RoundingMode::stochastic}) {
            for (const std::size_t outer : {0u, 1u, 3u}) {
                for (const std::size_t length :
                     {0u, 1u, 2u, 7u, 8u, 15u, 16u, 17u, 31u, 32u, 33u, 64u, 100u, 1023u}) {
                    for (const std::size_t inner : {1u, 2u}) {
                        for (const std::size_t skipped : {0u, 1u, 2u, 4u, 6u}) {
                            const BlockShape shape{outer, length, inner};
                            expect_blocks(random_floats(shape.size(), 9, 3), shape,
                                          parse_block_format(name), {mode, Overflow::saturate},
                                          skipped);
                        }
                    }
                }
            }
        }
    }
}

// Every number of edge_inputs() in blocks with numbers of like size, then among any numbers.
TEST(CudaBlocks, EveryBinadeSubnormalsAndSpecialValues) {
    std::vector<float> mixed = edge_inputs(), finite;
    for (std::size_t i = 0; i < mixed.size(); ++i)
        std::swap(mixed[i], mixed[(i * 7919 + 13) % mixed.size()]);
    for (const float x : edge_inputs()) {
        if (x - x == 0.0f) finite.push_back(x);
    }
    std::vector<BlockFormat> all = formats();
    for (const int block_size : {16, 32}) {
        for (const BlockFormat& f : row_formats(block_size)) all.push_back(f);
    }
    int mode = 0;
    for (const BlockFormat& f : all) {
        const Projection nearest{RoundingMode::ties_to_even, Overflow::saturate},
            other{static_cast<RoundingMode>(mode % (rounding_mode_count - 1)),
                  mode % 2 == 0 ? Overflow::saturate : Overflow::ieee};
        const auto expect = [&](const std::vector<float>& in, const Projection& p) {
            expect_blocks(in, {1, in.size(), 1}, f, p);
        };
        ++mode;
        expect(mode % 2 == 0 ? finite : edge_inputs(), nearest);
        expect(mixed, nearest);
        expect(mode % 3 == 0 ? finite : mixed, other);
        std::vector<float> zeros(50, 0.0f);
        zeros[3] = -0.0f;
        expect(zeros, nearest);
    }
}

TEST(CudaBlocks, CodesThatAreTooWideAreFound) {
    const BlockFormat f = parse_block_format("mxfp4");
    std::vector<std::uint8_t> codes(64, 1), scales(2, 127);
    codes[40] = codes[33] = 16;
    std::vector<float> out(64);
    unsigned long long wide[2] = {~0ull, ~0ull};
    for (const BlockShape shape : {BlockShape{1, 64, 1}, BlockShape{1, 32, 2}}) {
        wide[0] = ~0ull;
        with_decode_blocks(codes.data(), scales.data(), 1.0f, out.data(), shape, f, &wide[0],
                           &wide[1], [](const auto& step) { run_on_cpu(step); });
        EXPECT_EQ(wide[0], 33u);
        EXPECT_EQ(wide[1], ~0ull);
    }
}

}  // namespace
}  // namespace apscope::detail
