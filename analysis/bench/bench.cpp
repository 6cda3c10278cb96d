#include "analysis/bench/bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>

#include "analysis/bench/bench_floors.h"
#include "analysis/replay/float_blocks.h"
#include "analysis/statistics/cast_statistics.h"
#include "core/fixed_shape_sum.h"
#include "core/named_formats.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/arithmetic/arithmetic.h"
#include "emulation/arithmetic/ordered_sum.h"
#include "emulation/blocks/blocks.h"
#include "emulation/cast/quantize.h"
#include "emulation/machine/buffers.h"
#include "emulation/machine/parallel.h"
#include "emulation/machine/row_kernels.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

// The arrays of all jobs, which share them so that all use the same pages and contents. They are
// aligned to cache lines, as a replay's buffers are.
struct Arrays {
    Buffer<float> in, out;
    Buffer<double> in64, out64;
    Buffer<std::uint8_t> codes;
};

// Fills the arrays with numbers over eight binades, half of them negative.
std::shared_ptr<Arrays> make_arrays(std::size_t count, bool with_fp64) {
    auto a = std::make_shared<Arrays>();
    a->in.resize(count);
    a->out.assign(count, 0.0f);
    a->codes.assign(count, 0);
    const RandomStream stream = array_stream(7, 32);
    for (std::size_t i = 0; i < count; ++i) {
        const auto word = static_cast<std::uint32_t>(stream.at(i & 0xFFFFF) >> 32);
        a->in[i] = bits_cast<float>((word & 0x807FFFFF) | (120 + (word >> 23 & 7)) << 23);
    }
    if (with_fp64) {
        a->in64.assign(a->in.begin(), a->in.end());
        a->out64.assign(count, 0.0);
    }
    return a;
}

Projection rounding(RoundingMode mode, int bits = 32) {
    Projection p;
    p.rounding = mode;
    p.random_bits = bits;
    return p;
}

class Jobs {
public:
    explicit Jobs(const std::string& only) : only_(only) {}
    void add(BenchJob job) { all_.push_back(std::move(job)); }
    std::vector<BenchJob> take() {
        const auto is_selected = [&](const BenchJob& j) {
            return j.name.find(only_) != std::string::npos;
        };
        const auto is_floor = [&](const BenchJob& floor) {
            return std::any_of(all_.begin(), all_.end(), [&](const BenchJob& j) {
                return is_selected(j) && j.floor == floor.name && j.where == floor.where &&
                       j.threads == floor.threads;
            });
        };
        std::vector<BenchJob> chosen;
        for (const BenchJob& job : all_) {
            if (is_selected(job) || is_floor(job)) chosen.push_back(job);
        }
        return chosen;
    }

private:
    std::string only_;
    std::vector<BenchJob> all_;
};

void add_array_jobs(Jobs& jobs, const std::string& where, std::size_t count, int threads,
                    bool every_format) {
    const auto a = make_arrays(count, true);
    const double n = static_cast<double>(count);
    const auto job = [&](std::string name, double bytes, std::function<void()> run,
                         std::string floor = "memcpy") {
        jobs.add(
            {std::move(name), where, std::move(floor), threads, n, bytes, 0.0, std::move(run)});
    };
    job("memcpy", 8, [a, threads] { copy_in_pieces(a->in, a->out, threads, false); }, "");
    if (where == "DRAM")
        job(
            "streaming copy", 8, [a, threads] { copy_in_pieces(a->in, a->out, threads, true); },
            "");
    const auto quantize_job = [&](const char* name, Projection p) {
        const FloatFormat f = parse_format(name);
        std::string what =
            "quantize " + std::string(name) + " " + std::string(to_string(p.rounding));
        if (is_stochastic(p.rounding)) what += " " + std::to_string(p.random_bits) + " bits";
        if (p.overflow != Overflow::ieee) what += ", " + std::string(to_string(p.overflow));
        job(what, 8, [a, f, p, threads] {
            quantize(std::span<const float>(a->in), std::span<float>(a->out), f, p, {}, threads);
        });
    };
    for (const char* name : {"e4m3", "e5m2", "fp16", "bf16", "tf32"}) {
        if (every_format || std::string(name) == "e4m3" || std::string(name) == "bf16")
            quantize_job(name, {});
    }
    for (int i = 0; i < rounding_mode_count; ++i) {
        const auto mode = static_cast<RoundingMode>(i);
        if (mode != RoundingMode::ties_to_even && !is_stochastic(mode))
            quantize_job("e4m3", rounding(mode));
    }
    quantize_job("e4m3", {RoundingMode::ties_to_even, Overflow::saturate});
    // 4 numbers are 16 bytes: the offset within a cache line at which large heap arrays, such as
    // NumPy's, begin.
    constexpr std::size_t behind = 4;
    jobs.add({"quantize e4m3 ties_to_even, unaligned", where, "memcpy", threads, n - behind, 8, 0.0,
              [a, threads, e4m3 = parse_format("e4m3")] {
                  quantize(std::span<const float>(a->in).subspan(behind),
                           std::span<float>(a->out).subspan(behind), e4m3, {}, {}, threads);
              }});
    if (every_format) quantize_job("dlfloat16", {});
    for (const char* name : {"e4m3", "e5m2", "fp16", "bf16"}) {
        if (every_format || std::string(name) == "e4m3")
            quantize_job(name, rounding(RoundingMode::stochastic, 16));
    }
    for (const RoundingMode mode :
         {RoundingMode::stochastic_b, RoundingMode::stochastic_c, RoundingMode::stochastic_equal})
        quantize_job("e4m3", rounding(mode, 16));
    for (const int bits : {32, 64}) quantize_job("e4m3", rounding(RoundingMode::stochastic, bits));
    const FloatFormat e4m3 = parse_format("e4m3");
    job("quantize e4m3 with error statistics", 8,
        [a, e4m3, threads] { cast_statistics(a->in, a->out, e4m3, {}, 0, threads); });
    job("error statistics of e4m3", 4,
        [a, e4m3, threads] { cast_statistics(a->in, {}, e4m3, {}, 0, threads); });
    job("encode e4m3", 5, [a, e4m3, threads] {
        encode(std::span<const float>(a->in), std::span<std::uint8_t>(a->codes), e4m3, {},
               std::nullopt, {}, threads);
    });
    job("decode e4m3", 5, [a, e4m3, threads] {
        decode(std::span<const std::uint8_t>(a->codes), std::span<float>(a->out), e4m3, false,
               threads);
    });
    for (const Projection& p : {Projection{}, rounding(RoundingMode::stochastic, 16)}) {
        job("quantize fp64 e4m3 " + std::string(to_string(p.rounding)) +
                (is_stochastic(p.rounding) ? " 16 bits" : ""),
            16, [a, e4m3, p, threads] {
                quantize(std::span<const double>(a->in64), std::span<double>(a->out64), e4m3, p, {},
                         threads);
            });
    }
    // The array has lines of 1024 elements; with `columns` the blocks run across the lines.
    const std::size_t rows = count / 1024;
    const auto block_job = [&](const char* name, Projection p, bool columns = false) {
        const BlockFormat f = parse_block_format(name);
        const BlockShape shape = columns ? BlockShape{1, rows, 1024} : BlockShape{rows, 1024, 1};
        std::string what = "quantize_blocks " + std::string(name);
        if (p.rounding != RoundingMode::ties_to_even)
            what += " " + std::string(to_string(p.rounding));
        if (is_stochastic(p.rounding)) what += " " + std::to_string(p.random_bits) + " bits";
        if (columns) what += " columns";
        p.overflow = Overflow::saturate;
        job(what, 8, [a, f, p, shape, threads] {
            quantize_blocks(std::span<const float>(a->in).first(shape.size()),
                            std::span<float>(a->out).first(shape.size()), shape, f, p, 0, threads);
        });
    };
    for (const char* name :
         {"mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp4", "mxint8", "nvfp4", "bfp:8:16"}) {
        if (every_format || std::string(name) == "mxfp8_e4m3" || std::string(name) == "nvfp4")
            block_job(name, {});
    }
    if (every_format) {
        for (const RoundingMode mode :
             {RoundingMode::ties_to_away, RoundingMode::toward_zero, RoundingMode::to_odd})
            block_job("mxfp8_e4m3", rounding(mode));
        block_job("mxfp8_e4m3,rule=rceil", {});
        block_job("mxfp8_e4m3", {}, true);
        block_job("nvfp4", {}, true);
        block_job("mxfp8_e4m3,block=45", {});
    }
    block_job("mxfp8_e4m3", rounding(RoundingMode::stochastic, 16));
    for (const char* name : {"mxfp8_e4m3", "nvfp4"}) {
        const BlockFormat f = parse_block_format(name);
        const BlockShape shape{rows, 1024, 1};
        const auto scales = std::make_shared<std::vector<std::uint8_t>>(
            shape.scales(f),
            // Code 56 is 1 in e4m3 and 2^-71 in e8m0, so decoded values are normal.
            std::uint8_t{56});
        const double bytes = 5 + 1.0 / f.block_size;
        job("encode_blocks " + std::string(name), bytes, [a, scales, f, shape, threads] {
            encode_blocks(std::span<const float>(a->in).first(shape.size()),
                          std::span<std::uint8_t>(a->codes).first(shape.size()), *scales, shape, f,
                          {RoundingMode::ties_to_even, Overflow::saturate}, 0, threads);
        });
        const auto codes =
            std::make_shared<std::vector<std::uint8_t>>(shape.size(), std::uint8_t{5});
        job("decode_blocks " + std::string(name), bytes, [a, codes, scales, f, shape, threads] {
            decode_blocks(*codes, *scales, 1.0f, std::span<float>(a->out).first(shape.size()),
                          shape, f, threads);
        });
    }
}

// Computes the wire row and the reduced rows of one scheme on one item, as pass 2 of a replay does.
void replay_item(const Scheme& scheme, std::span<const float> in, std::size_t workers) {
    const std::size_t n = in.size() / workers;
    std::vector<std::span<const float>> rows;
    for (std::size_t w = 0; w < workers; ++w) rows.push_back(in.subspan(w * n, n));
    ItemContext item;
    item.tensor = "bench";
    item.gradients = rows;
    const std::vector<Topology> orders{parse_topology("sequential"), parse_topology("ring"),
                                       parse_topology("tree"), parse_topology("hierarchical:4")};
    item.topologies = orders;
    BlockBuffers buffers(item.workers());
    ItemAccount account(item, buffers.account,
                        std::make_unique<FloatBlocks>(scheme.parts.encoding.float_encoder.value(),
                                                      power_of_two(3), item, buffers));
    account.add(0, n);
}

void add_operations(Jobs& jobs, const BenchSizes& sizes) {
    const std::size_t m = sizes.matrix;
    const auto a = make_arrays(m * m, false);
    const auto multiply_add = std::make_shared<std::vector<float>>(1024, 1.0f);
    const double peak_count = 1 << 14;
    jobs.add({"fp32 multiply-add peak", "CPU", "", 1, peak_count, 0.0, 1.0,
              [multiply_add] { multiply_add_peak(*multiply_add, 1 << 14); }});
    const FloatFormat e4m3 = parse_format("e4m3"), fp16 = parse_format("fp16");
    const auto matrix = make_arrays(m * m, false);  // rounded to e4m3 below
    quantize(std::span<const float>(matrix->in), std::span<float>(matrix->in), e4m3, {});
    const auto matmul = [&](const std::string& name, std::optional<FloatFormat> product,
                            const FloatFormat& sum, const std::shared_ptr<Arrays>& of,
                            const char* order = "sequential",
                            RoundingMode mode = RoundingMode::ties_to_even) {
        SumOptions options;
        options.format = sum;
        options.product = product;
        options.order = parse_sum_order(order);
        options.projection = rounding(mode);
        jobs.add({name, "CPU", "fp32 multiply-add peak", 1, static_cast<double>(m * m), 0.0,
                  static_cast<double>(m), [of, m, options] {
                      ordered_matmul<float>(of->in, of->in, 1, m, m, of->out, options);
                  }});
    };
    const FloatFormat fp32 = parse_format("fp32");
    matmul("matmul e4m3 products, fp16 sums", e4m3, fp16, a);
    matmul("matmul fp16 sums", std::nullopt, fp16, a);
    matmul("matmul of e4m3, e4m3 products, fp16 sums", e4m3, fp16, matrix);
    matmul("matmul of e4m3, fp16 sums", std::nullopt, fp16, matrix);
    matmul("matmul of e4m3, fp32 sums", std::nullopt, fp32, matrix);
    for (const char* order : {"chunked:32", "pairwise", "kahan"})
        matmul("matmul of e4m3, e4m3 products, fp16 sums, " + std::string(order), e4m3, fp16,
               matrix, order);
    matmul("matmul of e4m3, e4m3 products, fp16 sums, toward_zero", e4m3, fp16, matrix,
           "sequential", RoundingMode::toward_zero);
    for (const char* order : {"chunked:16", "unit:h100", "unit:h100:fp8"})
        matmul("matmul of e4m3, fp32 sums, " + std::string(order), std::nullopt, fp32, matrix,
               order);
    constexpr std::size_t workers = 8, n = 1 << 14;
    const auto rows = make_arrays(workers * n, false);
    const auto sum = std::make_shared<std::vector<double>>(n);
    for (const std::string name : {"e4m3 ring", "e4m3 tree", "e4m3 ring+stochastic", "bf16 ring"}) {
        AllReduceOptions options;
        const std::size_t space = name.find(' ');
        const bool draws = name.ends_with("stochastic");
        const FloatFormat e4m3 = parse_format(name.substr(0, space));
        options.topology = parse_topology(draws ? "ring" : name.substr(space + 1));
        if (draws) options.projection = rounding(RoundingMode::stochastic, 16);
        jobs.add({"allreduce " + name + " of 8", "CPU", "", 1, static_cast<double>(n), 0.0,
                  workers - 1.0, [rows, sum, e4m3, options] {
                      all_reduce(rows->in, workers, *sum, e4m3, options);
                  }});
    }
    for (const char* spec : {"aps:e4m3", "aps:e4m3,rounding=stochastic"}) {
        const Scheme scheme = parse_scheme(spec);
        jobs.add({"replay " + std::string(spec) + ", 4 orders of 8", "CPU", "", 1,
                  static_cast<double>(workers * n), 0.0, 1.0,
                  [rows, scheme] { replay_item(scheme, rows->in, workers); }});
    }
    const auto x = make_arrays(sizes.l2_elements, false);
    const auto operation = [&](const std::string& name, Operation op, const FloatFormat& f,
                               const std::shared_ptr<Arrays>& of, const Projection& p = {}) {
        jobs.add({name, "CPU", "fp32 multiply-add peak", 1, static_cast<double>(sizes.l2_elements),
                  0.0, 1.0, [of, op, f, p] {
                      const std::span<const float> in(of->in);
                      arithmetic(op, in, in, in, std::span<float>(of->out), f, p);
                  }});
    };
    const auto numbers = make_arrays(sizes.l2_elements, false);  // rounded to e4m3 below
    quantize(std::span<const float>(numbers->in), std::span<float>(numbers->in), e4m3, {});
    operation("add e4m3 of e4m3 numbers", Operation::add, e4m3, numbers);
    for (const Operation op : {Operation::add, Operation::multiply, Operation::divide,
                               Operation::sqrt, Operation::fma}) {
        operation(std::string(to_string(op)) + " e4m3", op, e4m3, x);
    }
    // Each column has 64 terms.
    const std::size_t columns = sizes.l2_elements / 64;
    const auto column_sums = [&](const std::string& name, const std::shared_ptr<Arrays>& of,
                                 bool products) {
        SumOptions options;
        options.format = fp16;
        if (products) options.product = e4m3;
        jobs.add({name, "CPU", "fp32 multiply-add peak", 1, static_cast<double>(columns * 64), 0.0,
                  1.0, [of, columns, options, products] {
                      const std::span<const float> in =
                          std::span<const float>(of->in).first(columns * 64);
                      const std::span<float> out = std::span<float>(of->out).first(columns);
                      products ? ordered_dot<float>(in, in, 64, out, options)
                               : ordered_sum<float>(in, 64, out, options);
                  }});
    };
    column_sums("sum fp16", x, false);
    column_sums("sum fp16 of e4m3 numbers", numbers, false);
    column_sums("dot of e4m3, e4m3 products, fp16 sums", numbers, true);
    operation("add e4m3 toward_zero", Operation::add, e4m3, x, rounding(RoundingMode::toward_zero));
}

}  // namespace

std::vector<BenchJob> bench_jobs(const BenchSizes& sizes, const std::string& only) {
    Jobs jobs(only);
    add_array_jobs(jobs, "L2", sizes.l2_elements, 1, true);
    add_array_jobs(jobs, "DRAM", sizes.dram_elements, 1, false);
    if (sizes.threads > 1) add_array_jobs(jobs, "DRAM", sizes.dram_elements, sizes.threads, false);
    add_operations(jobs, sizes);
    return jobs.take();
}

std::vector<BenchTimes> run_bench(std::vector<BenchJob> jobs, int rounds, double visit_seconds,
                                  const std::function<void(std::size_t, std::size_t)>& progress) {
    using Clock = std::chrono::steady_clock;
    std::vector<BenchTimes> times;
    for (BenchJob& job : jobs) times.push_back({std::move(job), {}});
    for (BenchTimes& t : times) t.job.run();  // touches the pages and warms caches and pool
    const std::size_t visits = times.size() * static_cast<std::size_t>(rounds);
    std::size_t done = 0;
    for (int round = 0; round < rounds; ++round) {
        for (BenchTimes& t : times) {
            const auto start = Clock::now();
            double seconds = 0.0;
            std::size_t calls = 0;
            do {
                t.job.run();
                ++calls;
                seconds = std::chrono::duration<double>(Clock::now() - start).count();
            } while (seconds < visit_seconds);
            t.seconds.push_back(seconds / static_cast<double>(calls));
            if (progress) progress(++done, visits);
        }
    }
    return times;
}

}  // namespace apscope::detail
