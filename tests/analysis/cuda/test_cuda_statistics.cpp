// The steps of GPU threads for error statistics, run on the CPU: the sums of lanes, of blocks and
// of all elements have the bits of analysis/error_statistics.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "analysis/cuda/error_choice.h"
#include "core/named_formats.h"
#include "emulation/cast/quantize.h"
#include "emulation/cast/row_moments.h"
#include "tests/support/cuda_inputs.h"
#include "tests/support/error_statistics.h"

namespace apscope::detail {
namespace {

ErrorStatistics step_by_step(const std::vector<float>& in, std::vector<float>& out,
                             const FloatFormat& format, const Projection& projection) {
    std::vector<ErrorBlock> blocks((in.size() + sum_block - 1) / sum_block);
    ErrorTotalStep::Totals total;
    with_error_step(in.data(), out.empty() ? nullptr : out.data(), in.size(), format, projection, 5,
                    blocks.data(), [](const auto& step) { run_on_cpu(step); });
    run_on_cpu(ErrorTotalStep{blocks.data(), blocks.size(), &total});
    return error_statistics_of(in.size(), total);
}

ErrorStatistics array_by_array(const std::vector<float>& in, const std::vector<double>& codes,
                               const FloatScale& scale, const Projection& projection,
                               std::vector<double>& y) {
    ErrorStatistics s;
    std::vector<double> x(in.begin(), in.end());
    y = codes;
    for (std::size_t first = 0; first < x.size(); first += sum_block) {
        const std::size_t count = std::min(sum_block, x.size() - first);
        std::vector<double> bias, variance;
        if (has_moments(projection)) {
            bias.assign(count, 0.0);
            variance.assign(count, 0.0);
            const bool defined = add_moments(in.data() + first, count, 1.0, scale.cast, bias.data(),
                                             variance.data());
            s.moments_defined = s.moments_defined && defined;
        }
        s.add_block<double>(std::span(x).subspan(first, count), std::span(y).subspan(first, count),
                            &scale, bias, variance);
        s.count_limits(std::span(x).subspan(first, count), std::span(codes).subspan(first, count),
                       scale);
    }
    return s;
}

void expect_same(const ErrorStatistics& a, const ErrorStatistics& b, const std::string& what) {
    test::expect_same(a, b, what);
    EXPECT_EQ(a.moments_defined, b.moments_defined) << what;
}

void expect_statistics(const std::vector<float>& in, const FloatFormat& format,
                       const Projection& projection) {
    const std::string what = format.name() + " " + std::string(to_string(projection.rounding)) +
                             " n=" + std::to_string(in.size());
    std::vector<float> quantized(in.size()), out(in.size());
    quantize(in, quantized, format, projection, {5, 0, {}});
    std::vector<double> codes(quantized.begin(), quantized.end()), y;
    expect_same(array_by_array(in, codes, make_float_scale(format, projection), projection, y),
                step_by_step(in, out, format, projection), what);
    EXPECT_EQ(differing(quantized, out), 0u) << what;
    std::vector<float> not_stored;
    expect_same(step_by_step(in, out, format, projection),
                step_by_step(in, not_stored, format, projection), what + " null");
}

TEST(CudaStatistics, EveryModeAndOddSizes) {
    for (const char* name : {"e4m3", "e5m2", "e4m3fnuz", "bf16", "e3m0"}) {
        for (int mode = 0; mode < rounding_mode_count; ++mode) {
            Projection p;
            p.rounding = static_cast<RoundingMode>(mode);
            for (const std::size_t n : {std::size_t{1}, std::size_t{15}, std::size_t{17}, sum_block,
                                        3 * sum_block + 1001}) {
                expect_statistics(random_floats(n, 14, 2), parse_format(name), p);
            }
        }
    }
}

TEST(CudaStatistics, SubnormalsInfinitiesAndNaN) {
    for (const char* name : {"e4m3", "e5m2", "fp16", "fp32"}) {
        for (const Overflow overflow : {Overflow::ieee, Overflow::saturate}) {
            for (const RoundingMode mode : {RoundingMode::ties_to_even, RoundingMode::stochastic}) {
                expect_statistics(edge_inputs(), parse_format(name), {mode, overflow});
            }
        }
    }
}

// Every named format and projection with the statistics of fp32 pairs: unsigned formats, formats
// without a zero or without normal numbers, results beyond the largest, and pairs that are not
// finite.
TEST(CudaStatistics, Fp32PairsOfEveryNamedFormat) {
    std::vector<float> in;  // a quarter of the inputs, all exponents among them
    for (std::size_t i = 0; i < edge_inputs().size(); i += 8) {
        in.push_back(edge_inputs()[i]);
        in.push_back(edge_inputs()[i + 1]);
    }
    in.resize(in.size() - 5);
    std::vector<FloatFormat> formats;
    for (const NamedFormat& named : named_formats()) formats.push_back(named.format);
    for (const char* name : {"e0m3fn", "e1m14", "e8m0fn"}) formats.push_back(parse_format(name));
    for (const FloatFormat& f : formats) {
        if (!f.fits_fp32()) continue;
        for (int mode = 0; mode < static_cast<int>(RoundingMode::stochastic_exact); ++mode) {
            for (int overflow = 0; overflow < overflow_count; ++overflow) {
                const Projection p{static_cast<RoundingMode>(mode),
                                   static_cast<Overflow>(overflow)};
                try {
                    validate(p, f);
                } catch (const std::invalid_argument&) {
                    continue;
                }
                std::vector<float> quantized(in.size()), out(in.size());
                quantize(in, quantized, f, p, {5, 0, {}});
                const std::vector<double> codes(quantized.begin(), quantized.end());
                std::vector<double> y;
                const std::string what = f.name() + " " + std::string(to_string(p.rounding)) + " " +
                                         std::string(to_string(p.overflow));
                expect_same(array_by_array(in, codes, make_float_scale(f, p), p, y),
                            step_by_step(in, out, f, p), what);
                EXPECT_EQ(differing(quantized, out), 0u) << what;
            }
        }
    }
}

// The total of more blocks than are read ahead.
TEST(CudaStatistics, ManyBlocks) {
    for (const std::size_t blocks : {15, 16, 17, 31, 32, 33, 70})
        expect_statistics(random_floats(blocks * sum_block - 3, 14, 3), parse_format("e4m3"), {});
}

TEST(CudaStatistics, NothingOfNothing) {
    std::vector<float> none;
    expect_same(step_by_step({}, none, parse_format("e4m3"), {}), {}, "empty");
}

}  // namespace
}  // namespace apscope::detail
