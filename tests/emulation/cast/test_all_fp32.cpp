// All 2^32 fp32 inputs: the array path gives the bits of the rounding rule, and encode() gives the
// codes of these values. The rule is a loop over round_to_format(), which the compiler vectorises;
// on every sixteenth chunk also single calls, compiled for the baseline processor.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "core/named_formats.h"
#include "core/rounding.h"
#include "emulation/cast/quantize.h"

namespace apscope::detail {
namespace {

bool same_bits(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

class AllFp32 : public testing::TestWithParam<const char*> {};

TEST_P(AllFp32, ArrayPathEqualsTheRule) {
    const FloatFormat format = parse_format(GetParam());
    const Projection projection;  // ties to even, overflow by IEEE 754
    const Cast<float> cast = make_cast<float>(format, projection);
    constexpr std::uint64_t chunk = 1
                                    << 14;  // an input, an output and an expected array stay in L2
    std::atomic<std::uint64_t> next{0}, compared{0}, mismatches{0}, first{std::uint64_t{1} << 32};

    auto work = [&] {
        std::vector<float> in(chunk), out(chunk), expected(chunk), decoded(chunk);
        std::vector<std::uint16_t> codes(chunk);
        for (std::uint64_t start; (start = next.fetch_add(chunk)) < std::uint64_t{1} << 32;) {
            for (std::uint64_t i = 0; i < chunk; ++i)
                in[i] = std::bit_cast<float>(static_cast<std::uint32_t>(start + i));
            quantize(in, out, format, projection);
            quantize_by_rule(in, expected, format, projection);
            if (start / chunk % 16 == 0) {
                for (std::uint64_t i = 0; i < chunk; ++i) {
                    expected[i] =
                        round_to_format<RoundingMode::ties_to_even, float>(in[i], cast, 0);
                }
            }
            std::uint64_t wrong = 0;
            encode(std::span<const float>(in), std::span<std::uint16_t>(codes), format, projection,
                   std::uint64_t{0});
            decode(std::span<const std::uint16_t>(codes), std::span<float>(decoded), format);
            const bool has_nan = format.has_nan();  // without NaN, the code for NaN is 0
            for (std::uint64_t i = 0; i < chunk; ++i) {
                wrong += !same_bits(out[i], expected[i]) ||
                         !same_bits(decoded[i],
                                    has_nan || expected[i] == expected[i] ? expected[i] : 0.0f);
            }
            compared += chunk;
            if (wrong == 0) continue;
            mismatches += wrong;
            for (std::uint64_t i = 0; i < chunk; ++i) {
                if (same_bits(out[i], expected[i]) && (same_bits(decoded[i], expected[i]) ||
                                                       (!has_nan && expected[i] != expected[i])))
                    continue;
                std::uint64_t earlier = first;
                while (start + i < earlier && !first.compare_exchange_weak(earlier, start + i)) {}
                break;
            }
        }
    };
    {
        std::jthread other(work);
        work();
    }
    EXPECT_EQ(compared, std::uint64_t{1} << 32);
    EXPECT_EQ(mismatches, 0u) << "first at input bits 0x" << std::hex << first;
    RecordProperty("inputs", std::to_string(compared));
    std::cout << GetParam() << ": " << compared << " inputs, " << mismatches << " mismatches\n";
}

INSTANTIATE_TEST_SUITE_P(TiesToEven, AllFp32,
                         testing::Values("e4m3", "e4m3fn", "e5m2", "fp16", "bf16", "e3m0"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace apscope::detail
