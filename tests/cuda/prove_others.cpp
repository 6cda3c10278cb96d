// Every kernel but quantize against the host: the edges of every binade, subnormal and special
// numbers, and random ones.
#include <algorithm>
#include <limits>
#include <numeric>

#include "analysis/cuda/error_cuda.h"
#include "core/fixed_shape_sum.h"
#include "core/named_formats.h"
#include "emulation/cast/quantize.h"
#include "emulation/cast/row_moments.h"
#include "emulation/cuda/allreduce/reduce_cuda.h"
#include "emulation/cuda/arithmetic/matmul_cuda.h"
#include "emulation/cuda/blocks/blocks_cuda.h"
#include "emulation/cuda/cast/quantize_cuda.h"
#include "gpu.h"

namespace apscope::detail::gpu {

namespace {

constexpr std::uint64_t seed = 5;

std::string named(const FloatFormat& f, const Projection& p) {
    return f.name() + ", " + std::string(to_string(p.rounding));
}

std::vector<RoundingMode> counted_modes() {
    std::vector<RoundingMode> modes;
    for (int mode = 0; mode < rounding_mode_count; ++mode)
        modes.push_back(static_cast<RoundingMode>(mode));
    modes.pop_back();  // stochastic_exact, the last, is for casts
    return modes;
}

}  // namespace

bool prove_codes() {
    const std::vector<float> in = edge_numbers();
    const Array<float> x(in);
    bool right = true;
    for (const char* name : {"e4m3", "e4m3fn", "e5m2", "e4m3fnuz", "e3m2fn", "e2m1fn"}) {
        const FloatFormat f = parse_format(name);
        const std::optional<std::uint64_t> nan =
            f.has_nan() ? std::nullopt : std::optional<std::uint64_t>(0);
        for (int mode = 0; mode < rounding_mode_count; ++mode) {
            const Projection p{static_cast<RoundingMode>(mode), Overflow::ieee, 16};
            std::vector<std::uint8_t> expected(in.size());
            encode<float, std::uint8_t>(in, expected, f, p, nan, {seed, 0, {}});
            const Array<std::uint8_t> codes(in.size());
            encode_on_device(x.get(), codes.get(), in.size(), f, p, nan, seed, nullptr);
            right = report("encode " + named(f, p), expected, codes.read()) && right;
            std::vector<float> values(in.size());
            decode<std::uint8_t, float>(expected, values, f);
            const Array<float> decoded(in.size());
            decode_on_device(codes.get(), decoded.get(), in.size(), f, false, nullptr);
            right = report("decode " + f.name(), values, decoded.read()) && right;
        }
    }
    return right;
}

bool prove_statistics() {
    std::vector<float> in = edge_numbers();
    const std::vector<float> more =
        random_numbers((std::size_t{1} << (small ? 13 : 22)) + 1001, 14, 3);
    in.insert(in.end(), more.begin(), more.end());
    const Array<float> x(in);
    bool right = true;
    for (const char* name : {"e4m3", "e5m2", "bf16"}) {
        const FloatFormat f = parse_format(name);
        for (const RoundingMode mode : counted_modes()) {
            const Projection p{mode};
            std::vector<float> quantized(in.size());
            quantize(in, quantized, f, p, {seed, 0, {}}, 0);
            const std::vector<double> a(in.begin(), in.end()),
                b(quantized.begin(), quantized.end());
            const FloatScale scale{make_cast<double>(f, p), 1.0, 1.0, f.smallest_normal(),
                                   f.largest()};
            ErrorStatistics expected;
            for (std::size_t first = 0; first < a.size(); first += sum_block) {
                const std::size_t count = std::min(sum_block, a.size() - first);
                const std::span<const double> part = std::span(a).subspan(first, count),
                                              results = std::span(b).subspan(first, count);
                std::vector<double> bias(is_stochastic(mode) ? count : 0), variance(bias.size());
                if (is_stochastic(mode)) {
                    const bool defined = add_moments(in.data() + first, count, 1.0, scale.cast,
                                                     bias.data(), variance.data());
                    expected.moments_defined = expected.moments_defined && defined;
                }
                expected.add_block<double>(part, results, &scale, bias, variance);
                expected.count_limits(part, results, scale);
            }
            const Array<float> out(in.size());
            const ErrorStatistics got =
                quantize_statistics_on_device(x.get(), out.get(), in.size(), f, p, seed, nullptr);
            const auto list = [](const ErrorStatistics& s) {
                std::vector<double> all(s.sums.begin(), s.sums.end());
                for (const std::uint64_t count :
                     {s.count, s.counted, s.nonzero, s.underflow, s.subnormal, s.saturated,
                      s.overflow, s.nan, s.infinite}) {
                    all.push_back(static_cast<double>(count));
                }
                all.push_back(s.max_ulp);
                all.push_back(s.moments_defined);
                return all;
            };
            right = report("statistics " + named(f, p), list(expected), list(got)) && right;
            right = report("their results", quantized, out.read()) && right;
        }
    }
    return right;
}

bool prove_all_reduce() {
    bool right = true;
    for (const std::size_t workers : {1u, 3u, 8u, 64u}) {
        // Rows of a multiple of four numbers are aligned.
        const std::size_t n = (small ? 516 : 5000) + (workers % 2 == 0 ? 0 : 3);
        std::vector<float> in = random_numbers(workers * n, 9, 7);
        if (workers == 3) {
            const std::vector<float> edges = edge_numbers();
            for (std::size_t i = 0; i < in.size(); i += 5) in[i] = edges[i * 131 % edges.size()];
        }
        const Array<float> x(in);
        for (const char* topology :
             {"exact", "sequential", "ring", "tree", "butterfly", "hierarchical:4",
              "sequential+kahan", "hierarchical:4+kahan"}) {
            AllReduceOptions options;
            options.topology = parse_topology(topology);
            // The bits of a NaN in its sums are not defined.
            if (options.topology.kind == Topology::Kind::exact && workers == 3) continue;
            for (const char* format : {"e5m2", "bf16"}) {
                for (const RoundingMode mode : counted_modes()) {
                    options.projection.rounding = mode;
                    options.projection.random_bits = workers == 3 ? 60 : 32;
                    options.seed = seed;
                    const FloatFormat f = parse_format(format);
                    std::vector<double> expected(n);
                    all_reduce(in, workers, expected, f, options);
                    const Array<double> out(n);
                    all_reduce_on_device(x.get(), workers, out.get(), n, f, options, {}, nullptr);
                    right = report("all-reduce of " + std::to_string(workers) + ", " + topology +
                                       ", " + named(f, options.projection),
                                   expected, out.read()) &&
                            right;
                }
            }
        }
    }
    return right;
}

bool prove_blocks() {
    bool right = true;
    std::vector<float> in;
    for (const float x : edge_numbers()) {
        if (x - x == 0.0f) in.push_back(x);
    }
    const std::vector<float> more = random_numbers(small ? 1 << 12 : 1 << 18, 9, 1);
    in.insert(in.end(), more.begin(), more.end());
    in.resize(in.size() / 6 * 6);
    const Array<float> x(in);
    std::vector<NamedBlockFormat> formats;
    for (const NamedBlockFormat& row : named_block_formats()) {
        formats.push_back(row);
        for (const int block_size : {7, 16, 64, 128}) {
            formats.push_back(row);
            formats.back().format.block_size = block_size;
        }
    }
    for (const NamedBlockFormat& row : formats) {
        // One long row; rows that end within a block; columns.
        for (const BlockShape shape : {BlockShape{1, in.size(), 1}, BlockShape{6, in.size() / 6, 1},
                                       BlockShape{2, in.size() / 6, 3}}) {
            for (const RoundingMode mode :
                 {RoundingMode::ties_to_even, RoundingMode::toward_negative,
                  RoundingMode::stochastic}) {
                const Projection p{mode, Overflow::saturate};
                std::vector<float> expected(in.size());
                std::vector<std::uint8_t> codes(in.size()), scales(shape.scales(row.format));
                quantize_blocks(in, expected, shape, row.format, p, seed);
                const float tensor = encode_blocks(in, codes, scales, shape, row.format, p, seed);
                const Array<float> out(in.size()), decoded(in.size());
                const Array<std::uint8_t> device_codes(codes.size()), device_scales(scales.size());
                quantize_blocks_on_device(x.get(), out.get(), shape, row.format, p, seed, nullptr);
                const float device_tensor =
                    encode_blocks_on_device(x.get(), device_codes.get(), device_scales.get(), shape,
                                            row.format, p, seed, nullptr);
                decode_blocks_on_device(device_codes.get(), device_scales.get(), device_tensor,
                                        decoded.get(), shape, row.format, nullptr);
                const std::string what = row.format.name() + ", " + std::string(to_string(mode)) +
                                         ", outer " + std::to_string(shape.outer) + ", inner " +
                                         std::to_string(shape.inner);
                right = report("blocks " + what, expected, out.read()) && right;
                right = report("their codes", codes, device_codes.read()) &&
                        report("their scales", scales, device_scales.read()) && right;
                right = report("their tensor scale", std::vector{tensor}, {device_tensor}) &&
                        report("decoded", expected, decoded.read()) && right;
            }
        }
    }
    return right;
}

namespace {

// Orders of matrix units, with C; one operand has a NaN and an infinity.
bool prove_units() {
    constexpr std::size_t batches = 2, rows = 19, terms = 83, columns = 23;
    std::vector<float> c = random_numbers(batches * rows * columns, 9, 3);
    const Array<float> addend(c);
    bool right = true;
    for (const MatrixUnitPreset& preset : matrix_unit_presets()) {
        const std::string input(preset.inputs.substr(0, preset.inputs.find(' ')));
        for (const std::string above : {"", ",promote=24", ",split=3"}) {
            SumOptions options;
            if (preset.unit.scaled != 0 || (preset.unit.half && !above.empty())) continue;
            options.order = parse_sum_order("unit:" + std::string(preset.name) + above);
            options.format = parse_format(preset.unit.half ? "fp16" : "fp32");
            std::vector<float> a = random_numbers(batches * rows * terms, 5, 1),
                               b = random_numbers(batches * terms * columns, 5, 2);
            const FloatFormat format = parse_format(input);
            quantize(a, a, format, {});
            quantize(b, b, format, {});
            a[5] = std::numeric_limits<float>::quiet_NaN();
            if (format.has_infinity) b[7] = std::numeric_limits<float>::infinity();
            const Array<float> left(a), right_factor(b), out(c.size());
            std::vector<float> expected(c.size());
            ordered_matmul<float>(a, b, batches, rows, terms, expected, options, c);
            matmul_on_device(left.get(), right_factor.get(), addend.get(), out.get(), batches, rows,
                             terms, columns, options, nullptr);
            right =
                report("matmul unit:" + std::string(preset.name) + above, expected, out.read()) &&
                right;
        }
    }
    return right;
}

// Roundings to nearest, whose tiles (emulation/cuda/arithmetic/matmul_tile.h) have one row or four,
// and columns that are read one by one or four at a time.
bool prove_tiles() {
    struct Shape {
        std::size_t rows, columns;
    };
    const std::size_t terms = small ? 17 : 33;
    const std::vector<float> edges = edge_numbers();
    bool right = true;
    for (const auto [rows, columns] : {Shape{61, 56}, Shape{727, 728}, Shape{727, 730}}) {
        std::vector<float> a = random_numbers(rows * terms, 5, 3),
                           b = random_numbers(terms * columns, 5, 4);
        for (std::size_t i = 0; i < a.size(); i += 499) a[i] = edges[i * 131 % edges.size()];
        for (std::size_t i = 0; i < b.size(); i += 997) b[i] = edges[i * 137 % edges.size()];
        const Array<float> left(a), right_factor(b), out(rows * columns);
        std::vector<float> expected(rows * columns);
        for (const char* order : {"sequential", "chunked:16", "kahan"}) {
            for (const char* format : {"fp16", "bf16", "fp32"}) {
                if (small && rows > 100 && std::string_view(format) != "fp16") continue;
                for (const char* product : {"", "e4m3", "bf16", "fp32"}) {
                    SumOptions options;
                    options.order = parse_sum_order(order);
                    options.format = parse_format(format);
                    if (*product != '\0') options.product = parse_format(product);
                    ordered_matmul<float>(a, b, 1, rows, terms, expected, options);
                    matmul_on_device(left.get(), right_factor.get(), nullptr, out.get(), 1, rows,
                                     terms, columns, options, nullptr);
                    right =
                        report("matmul of " + std::to_string(columns) + " columns, " + order +
                                   ", " + format + ", product " + (*product ? product : "exact"),
                               expected, out.read()) &&
                        right;
                }
            }
        }
    }
    return right;
}

}  // namespace

bool prove_matmul() {
    constexpr std::size_t batches = 2, terms = 129;
    const std::size_t rows = small ? 9 : 37, columns = small ? 21 : 53;
    std::vector<float> a = random_numbers(batches * rows * terms, 5, 1),
                       b = random_numbers(batches * terms * columns, 5, 2);
    const std::vector<float> edges = edge_numbers();
    for (std::size_t i = 0; i < a.size(); i += 997) a[i] = edges[i * 131 % edges.size()];
    const Array<float> left(a), right_factor(b);
    bool right = true;
    for (const char* order : {"sequential", "chunked:16", "pairwise", "kahan"}) {
        for (const char* product : {"", "e4m3"}) {
            for (const RoundingMode mode : counted_modes()) {
                SumOptions options;
                options.order = parse_sum_order(order);
                options.format = parse_format("e5m2");
                options.accumulate = parse_format("fp16");
                if (*product != '\0') options.product = parse_format(product);
                options.projection.rounding = mode;
                options.seed = seed;
                std::vector<float> expected(batches * rows * columns);
                ordered_matmul<float>(a, b, batches, rows, terms, expected, options);
                const Array<float> out(expected.size());
                matmul_on_device(left.get(), right_factor.get(), nullptr, out.get(), batches, rows,
                                 terms, columns, options, nullptr);
                right =
                    report(std::string("matmul ") + order + ", product " +
                               (*product ? product : "exact") + ", " + std::string(to_string(mode)),
                           expected, out.read()) &&
                    right;
            }
        }
    }
    const bool tiles = prove_tiles();
    return prove_units() && tiles && right;
}

}  // namespace apscope::detail::gpu
