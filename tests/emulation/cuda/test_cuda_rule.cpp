// A GPU thread's work in quantize, encode and decode, run here on the CPU: every group of elements
// has the bits of the array path.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/named_formats.h"
#include "emulation/cast/quantize.h"
#include "emulation/cuda/cast/nan_bits.h"
#include "emulation/cuda/cast/quantize_step.h"
#include "emulation/cuda/cast/step_choice.h"
#include "tests/support/cuda_inputs.h"

namespace apscope::detail {
namespace {

constexpr std::uint64_t seed = 7;

template <class Real>
std::vector<Real> as(const std::vector<float>& values) {
    return {values.begin(), values.end()};
}

std::string describe(const FloatFormat& f, const Projection& p) {
    return f.name() + " " + std::string(to_string(p.rounding)) + " " +
           std::string(to_string(p.overflow)) + " " + std::string(to_string(p.underflow)) +
           " random_bits=" + std::to_string(p.random_bits);
}

// `shift` moves the arrays off their alignment.
template <class Real>
void expect_groups_equal_the_array(const FloatFormat& format, const Projection& projection,
                                   std::size_t count, std::uint64_t first, std::size_t shift = 0) {
    static const std::vector<Real> all = as<Real>(edge_inputs());
    constexpr Real untouched = 12345;
    const std::span in = std::span(all).subspan(shift, count);
    std::vector<Real> expected(count), out(shift + count + 1, untouched);
    quantize_by_rule(in, expected, format, projection, {seed, first, {}});
    with_rounding<Real>(format, projection, seed,
                        [&]<int Size, class Rounding>(const Rounding& rounding) {
                            run_on_cpu(QuantizeStep<Rounding, Size>{
                                in.data(), out.data() + shift, {count, first}, rounding});
                        });
    EXPECT_EQ(differing(expected, std::span(out).subspan(shift, count)), 0u)
        << describe(format, projection) << " first=" << first << " count=" << count
        << " shift=" << shift;
    EXPECT_EQ(out[shift + count], untouched);
}

std::vector<Projection> projections(const FloatFormat& format) {
    std::vector<Projection> found;
    const auto add = [&](const Projection& p) {
        try {
            validate(p, format);
            found.push_back(p);
        } catch (const std::invalid_argument&) {}
    };
    for (int mode = 0; mode < rounding_mode_count; ++mode) {
        const auto rounding = static_cast<RoundingMode>(mode);
        for (const int random_bits : {8, 32, 40, 62}) {
            if (random_bits == 32 || is_stochastic(rounding))
                add({rounding, Overflow::ieee, random_bits});
        }
    }
    for (const RoundingMode rounding :
         {RoundingMode::ties_to_even, RoundingMode::toward_zero, RoundingMode::stochastic}) {
        for (int overflow = 1; overflow < overflow_count; ++overflow)
            add({rounding, static_cast<Overflow>(overflow)});
        for (int underflow = 1; underflow < underflow_count; ++underflow) {
            add({rounding, Overflow::ieee, 32, static_cast<Underflow>(underflow)});
        }
        add({rounding, Overflow::ieee, 32, Underflow::gradual, true});
    }
    return found;
}

TEST(CudaRule, EveryNamedFormatAndProjectionEqualsTheRule) {
    for (const NamedFormat& named : named_formats()) {
        if (!named.format.fits_fp32()) continue;
        for (const Projection& p : projections(named.format)) {
            expect_groups_equal_the_array<float>(named.format, p, edge_inputs().size(), 0);
        }
    }
}

TEST(CudaRule, Fp64NumbersToo) {
    for (const char* name :
         {"e4m3", "e5m2", "e2m1fn", "bf16", "fp16", "fp32", "e8m0fnu", "e4m3fnuz"}) {
        const FloatFormat format = parse_format(name);
        for (const Projection& p : projections(format))
            expect_groups_equal_the_array<double>(format, p, 1 << 14, 0);
    }
}

TEST(CudaRule, SixteenMillionInputsSpreadOverAllBitPatterns) {
    constexpr std::uint32_t count = 1 << 24;
    std::vector<float> in(count), expected(count), out(count);
    for (std::uint32_t i = 0; i < count; ++i)
        in[i] = bits_cast<float>(i * 2654435769u);  // an odd factor, so all numbers differ
    for (const char* name : {"e4m3", "bf16"}) {
        const FloatFormat format = parse_format(name);
        for (const Projection& p :
             {Projection{}, Projection{RoundingMode::ties_to_away},
              Projection{RoundingMode::toward_negative}, Projection{RoundingMode::to_odd},
              Projection{RoundingMode::stochastic}}) {
            quantize_by_rule(in, expected, format, p, {seed, 0, {}});
            with_rounding<float>(
                format, p, seed, [&]<int Size, class Rounding>(const Rounding& rounding) {
                    EXPECT_FALSE((std::is_same_v<Rounding, RuleRounding<float>>));
                    run_on_cpu(
                        QuantizeStep<Rounding, Size>{in.data(), out.data(), {count, 0}, rounding});
                });
            EXPECT_EQ(differing(expected, out), 0u) << describe(format, p);
        }
    }
}

TEST(CudaRule, EveryRoundingServesWhatItShould) {
    // The fast roundings are chosen if their conditions hold. If they were not, the tests above
    // would test only the rule.
    const auto chosen = []<class Real = float>(const char* name, const Projection& p, Real = {}) {
        std::string path;
        with_rounding<Real>(parse_format(name), p, seed,
                            [&]<int Size, class Rounding>(const Rounding&) {
                                path = (std::is_same_v<Rounding, AdditionRounding> ? "addition"
                                        : std::is_same_v<Rounding, SplitRounding>  ? "split"
                                        : std::is_same_v<Rounding, QuantaRounding> ? "quanta"
                                                                                   : "rule") +
                                       std::to_string(Size);
                            });
        return path;
    };
    EXPECT_EQ(chosen("e4m3", {}), "addition4");
    EXPECT_EQ(chosen("e4m3", {RoundingMode::toward_zero}), "addition4");
    EXPECT_EQ(chosen("bf16", {RoundingMode::toward_zero}), "split4");
    EXPECT_EQ(chosen("bf16", {RoundingMode::stochastic, Overflow::ieee, 32}), "split4");
    EXPECT_EQ(chosen("bf16", {RoundingMode::stochastic, Overflow::ieee, 16}), "split8");
    EXPECT_EQ(chosen("e4m3", {RoundingMode::stochastic_b, Overflow::ieee, 32}), "split4");
    EXPECT_EQ(chosen("e4m3", {RoundingMode::stochastic_exact}), "split4");
    EXPECT_EQ(chosen("e4m3", {RoundingMode::stochastic, Overflow::ieee, 62}), "rule4");
    EXPECT_EQ(chosen("e4m3", {RoundingMode::stochastic, Overflow::ieee, 48}, 0.0), "quanta4");
    EXPECT_EQ(chosen("bf16", {RoundingMode::stochastic, Overflow::saturate, 16}, 0.0), "quanta8");
    EXPECT_EQ(chosen("e4m3fnuz", {RoundingMode::stochastic}, 0.0), "rule4");
}

TEST(CudaRule, MomentsByQuantaEqualTheRule) {
    std::vector<double> numbers = as<double>(edge_inputs());
    for (const double x : edge_inputs()) numbers.push_back(x * (1.0 + 0x1p-40));
    for (const NamedFormat& named : named_formats()) {
        for (const Overflow overflow : {Overflow::ieee, Overflow::saturate}) {
            for (const int random_bits : {1, 16, 32, 48, 49}) {
                const Projection projection{RoundingMode::stochastic, overflow, random_bits};
                try {
                    validate(projection, named.format);
                } catch (const std::invalid_argument&) {
                    continue;
                }
                const auto cast = make_cast<double>(named.format, projection);
                std::size_t different = 0;
                for (const double x : numbers) {
                    const RoundingMoments rule = stochastic_moments(x, cast),
                                          found = moments_by_mode(x, cast);
                    different += rule.bias != found.bias || rule.variance != found.variance ||
                                 rule.defined != found.defined;
                }
                EXPECT_EQ(different, 0u) << describe(named.format, projection);
            }
        }
    }
}

TEST(CudaRule, GroupsCutAtBothEndsAndOffAlignmentDrawTheSameWords) {
    const FloatFormat format = parse_format("e4m3");
    for (const int random_bits : {1, 8, 16, 17, 32, 33, 64}) {
        for (const RoundingMode rounding : {RoundingMode::ties_to_even, RoundingMode::stochastic,
                                            RoundingMode::stochastic_exact}) {
            const Projection projection{rounding, Overflow::ieee, random_bits};
            for (const std::uint64_t first : {0u, 1u, 5u, 8u, 1021u}) {
                for (const std::size_t count : {0u, 1u, 2u, 7u, 8u, 9u, 4099u}) {
                    for (const std::size_t shift : {0u, 1u, 2u})
                        expect_groups_equal_the_array<float>(format, projection, count, first,
                                                             shift);
                    expect_groups_equal_the_array<double>(format, projection, count, first, 1);
                }
            }
            expect_groups_equal_the_array<float>(format, projection, 1000,
                                                 (std::uint64_t{1} << 40) + 3);
        }
    }
}

TEST(CudaRule, ConversionsKeepNaNAsTheProcessorDoes) {
    for (const float x : edge_inputs()) {
        const volatile float narrow = x;
        const double wide = narrow;
        EXPECT_EQ(bits_cast<std::uint64_t>(widened(x)), bits_cast<std::uint64_t>(wide));
        const volatile double back = wide;
        const auto expected = static_cast<float>(back);
        EXPECT_EQ(bits_cast<std::uint32_t>(narrowed(wide)), bits_cast<std::uint32_t>(expected));
    }
}

TEST(CudaRule, MoreThan32BitsOfElementsKeepTheirPlaces) {
    const ElementRange range{(std::uint64_t{1} << 33) + 5, 3};
    EXPECT_EQ(range.groups<4>(), (std::uint64_t{1} << 31) + 2);
    EXPECT_EQ(range.offset<4>(range.groups<4>() - 1), (std::uint64_t{1} << 33) + 1);
    EXPECT_TRUE(range.is_whole<4>(std::uint64_t{1} << 33));
    EXPECT_FALSE(range.is_whole<4>((std::uint64_t{1} << 33) + 2));
}

template <class Real, class Code>
void expect_codes(const FloatFormat& format, const Projection& projection,
                  std::optional<std::uint64_t> nan) {
    std::vector<Real> in;
    for (const float x : edge_inputs()) {
        if (x == x || nan || format.has_nan()) in.push_back(x);
    }
    in.resize(in.size() - 3);
    std::vector<Code> expected(in.size()), codes(in.size());
    encode<Real, Code>(in, expected, format, projection, nan, {seed, 0, {}});
    unsigned long long nan_at = ~0ull;
    with_encode_step<Real>(
        {in.data(), codes.data(), sizeof(Code), in.size(), nan, nan ? nullptr : &nan_at}, format,
        projection, seed, [](const auto& step) { run_on_cpu(step); });
    EXPECT_EQ(differing(expected, codes), 0u) << describe(format, projection);
    std::size_t first_nan = 0;
    while (first_nan < in.size() && in[first_nan] == in[first_nan]) ++first_nan;
    EXPECT_EQ(nan_at, nan || first_nan == in.size() ? ~0ull : first_nan);

    for (const bool keep_payload : {false, true}) {
        std::vector<Real> values(codes.size()), decoded(codes.size());
        decode<Code, Real>(codes, values, format, keep_payload);
        unsigned long long wide_at = ~0ull;
        with_decode_step(codes.data(), decoded.data(), codes.size(), format, keep_payload,
                         format.storage_bits() < static_cast<int>(sizeof(Code) * 8) ? &wide_at
                                                                                    : nullptr,
                         [](const auto& step) { run_on_cpu(step); });
        EXPECT_EQ(differing(values, decoded), 0u) << describe(format, projection);
        EXPECT_EQ(wide_at, ~0ull);
    }
}

TEST(CudaRule, EveryEncoderServesWhatItShould) {
    const auto chosen = [](const char* name, const Projection& p) {
        std::string path;
        const float in = 1.0f;
        std::uint32_t out = 0;
        with_encode_step<float>(
            {&in, &out, 4, 1, {}, nullptr}, parse_format(name), p, seed,
            [&]<class Rounding, class Encoder, int Size>(EncodeStep<Rounding, Encoder, Size>) {
                path =
                    (std::is_same_v<Encoder, MapEncoder> ? "map" : "codec") + std::to_string(Size);
            });
        return path;
    };
    EXPECT_EQ(chosen("e4m3", {}), "map8");
    EXPECT_EQ(chosen("bf16", {RoundingMode::toward_zero}), "map8");
    EXPECT_EQ(chosen("e4m3", {RoundingMode::stochastic}), "map8");
    EXPECT_EQ(chosen("e8m0fnu", {}), "codec4");
}

TEST(CudaRule, EveryDecoderServesWhatItShould) {
    const auto by_map = [](const char* name, bool keep_payload) {
        bool found = false;
        const std::uint32_t in = 0;
        float out = 1.0f;
        with_decode_step(&in, &out, 1, parse_format(name), keep_payload, nullptr,
                         [&]<class Decoder>(const DecodeStep<std::uint32_t, Decoder, 4>&) {
                             found = std::is_same_v<Decoder, MapDecoder>;
                         });
        return found;
    };
    EXPECT_TRUE(by_map("e4m3", false));
    EXPECT_TRUE(by_map("bf16", false));
    EXPECT_FALSE(by_map("fp16", true));
    EXPECT_FALSE(by_map("e8m0fnu", false));
}

TEST(CudaRule, CodesOfEveryNamedFormat) {
    for (const NamedFormat& named : named_formats()) {
        const FloatFormat& f = named.format;
        if (!f.fits_fp32()) continue;
        const std::optional<std::uint64_t> nan =
            f.has_nan() ? std::nullopt : std::optional<std::uint64_t>(1);
        for (const Projection p :
             {Projection{}, Projection{RoundingMode::stochastic, Overflow::ieee, 16}}) {
            if (f.storage_bits() <= 8) expect_codes<float, std::uint8_t>(f, p, nan);
            if (f.storage_bits() <= 16) expect_codes<float, std::uint16_t>(f, p, nan);
            expect_codes<float, std::uint32_t>(f, p, nan);
            expect_codes<double, std::uint64_t>(f, p, nan);
        }
        expect_codes<float, std::uint32_t>(
            f, {RoundingMode::ties_to_even, Overflow::ieee, 32, Underflow::gradual, true}, nan);
    }
    expect_codes<float, std::uint8_t>(parse_format("e2m1fn"), {},
                                      std::nullopt);  // no NaN in format or input
}

TEST(CudaRule, TheFirstCodeThatIsTooWideIsFound) {
    const FloatFormat f = parse_format("e2m1fn");
    std::vector<std::uint8_t> codes(1000, 3);
    codes[990] = codes[517] = 16;
    std::vector<float> values(codes.size());
    unsigned long long wide_at = ~0ull;
    with_decode_step(codes.data(), values.data(), codes.size(), f, false, &wide_at,
                     [](const auto& step) { run_on_cpu(step); });
    EXPECT_EQ(wide_at, 517u);
}

}  // namespace
}  // namespace apscope::detail
