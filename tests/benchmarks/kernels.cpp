// The kernels as Google Benchmark programs, for its tools (filters, repetitions, JSON, compare.py).
// The casts' names end with the number of fp32 elements: 65536 lie in the second-level cache,
// 16777216 in main memory. bytes/s counts reads and writes; compare it with memcpy's. `apscope
// bench` times the same kernels interleaved with their floors and prints ratios; use those if a
// machine's speed drifts.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/bits.h"
#include "core/named_formats.h"
#include "emulation/arithmetic/arithmetic.h"
#include "emulation/blocks/blocks.h"
#include "emulation/cast/quantize.h"
#include "emulation/machine/parallel.h"

namespace {

using namespace apscope;
using namespace apscope::detail;

// Numbers over eight binades, half of them negative.
std::vector<float> numbers(std::size_t count) {
    std::vector<float> x(count);
    const RandomStream stream = array_stream(7, 32);
    for (std::size_t i = 0; i < count; ++i) {
        const auto word = static_cast<std::uint32_t>(stream.at(i & 0xFFFFF) >> 32);
        x[i] = bits_cast<float>((word & 0x807FFFFF) | (120 + (word >> 23 & 7)) << 23);
    }
    return x;
}

Projection rounding(RoundingMode mode, int bits) {
    Projection p;
    p.rounding = mode;
    p.random_bits = bits;
    return p;
}

// Times work(in) for all lengths; `bytes` are read and written for each element.
template <class Prepare>
void add(const std::string& name, double bytes, Prepare prepare) {
    const auto run = [bytes, prepare](benchmark::State& state) {
        const std::vector<float> in = numbers(static_cast<std::size_t>(state.range(0)));
        auto work = prepare(in);
        for (auto _ : state) {
            work(in);
            benchmark::ClobberMemory();
        }
        const double elements =
            static_cast<double>(state.iterations()) * static_cast<double>(in.size());
        state.SetItemsProcessed(static_cast<std::int64_t>(elements));
        state.SetBytesProcessed(static_cast<std::int64_t>(elements * bytes));
    };
    benchmark::RegisterBenchmark(name.c_str(), run)->Arg(1 << 16)->Arg(1 << 24);
}

void add_casts() {
    add("memcpy", 8, [](const std::vector<float>& in) {
        return [out = std::vector<float>(in.size())](const std::vector<float>& x) mutable {
            std::memcpy(out.data(), x.data(), x.size() * sizeof(float));
        };
    });
    const auto quantize_job = [](const char* name, RoundingMode mode, int bits) {
        std::string what = "quantize/" + std::string(name) + "/" + std::string(to_string(mode));
        if (is_stochastic(mode)) what += "/" + std::to_string(bits) + "_bits";
        add(what, 8,
            [f = parse_format(name), p = rounding(mode, bits)](const std::vector<float>& in) {
                return [=, out = std::vector<float>(in.size())](
                           const std::vector<float>& x) mutable { quantize(x, out, f, p); };
            });
    };
    for (const char* name : {"e4m3", "e5m2", "fp16", "bf16", "tf32"})
        quantize_job(name, RoundingMode::ties_to_even, 32);
    for (const RoundingMode mode :
         {RoundingMode::ties_to_away, RoundingMode::toward_zero, RoundingMode::to_odd})
        quantize_job("e4m3", mode, 32);
    for (const int bits : {16, 32}) quantize_job("e4m3", RoundingMode::stochastic, bits);
    const FloatFormat e4m3 = parse_format("e4m3");
    add("encode/e4m3", 5, [e4m3](const std::vector<float>& in) {
        return
            [=, codes = std::vector<std::uint8_t>(in.size())](const std::vector<float>& x) mutable {
                encode(std::span<const float>(x), std::span<std::uint8_t>(codes), e4m3, {},
                       std::nullopt);
            };
    });
    add("decode/e4m3", 5, [e4m3](const std::vector<float>& in) {
        return [=, codes = std::vector<std::uint8_t>(in.size(), 5),
                out = std::vector<float>(in.size())](const std::vector<float>&) mutable {
            decode(std::span<const std::uint8_t>(codes), std::span<float>(out), e4m3);
        };
    });
    add("add/e4m3", 12, [e4m3](const std::vector<float>& in) {
        return [=, out = std::vector<float>(in.size())](const std::vector<float>& x) mutable {
            arithmetic(Operation::add, std::span<const float>(x), std::span<const float>(x),
                       std::span<const float>{}, std::span<float>(out), e4m3, {});
        };
    });
}

// Lines of 1024 elements; "columns": blocks along the other axis.
void add_blocks() {
    const auto shape = [](std::size_t count, bool columns) {
        return columns ? BlockShape{1, count / 1024, 1024} : BlockShape{count / 1024, 1024, 1};
    };
    const auto quantize_job = [&](const char* name, RoundingMode mode, bool columns) {
        const std::string what = "quantize_blocks/" + std::string(name) + "/" +
                                 std::string(to_string(mode)) + (columns ? "/columns" : "");
        add(what, 8,
            [=, f = parse_block_format(name),
             p = Projection{mode, Overflow::saturate, 16}](const std::vector<float>& in) {
                return
                    [=, out = std::vector<float>(in.size())](const std::vector<float>& x) mutable {
                        quantize_blocks(std::span<const float>(x), std::span<float>(out),
                                        shape(x.size(), columns), f, p);
                    };
            });
    };
    for (const char* name : {"mxfp8_e4m3", "mxfp6_e2m3", "mxfp4", "mxint8", "nvfp4", "bfp:8:16"})
        quantize_job(name, RoundingMode::ties_to_even, false);
    quantize_job("mxfp8_e4m3", RoundingMode::toward_zero, false);
    quantize_job("mxfp8_e4m3", RoundingMode::stochastic, false);
    quantize_job("mxfp8_e4m3", RoundingMode::ties_to_even, true);
    for (const char* name : {"mxfp8_e4m3", "nvfp4"}) {
        const BlockFormat f = parse_block_format(name);
        const Projection p{RoundingMode::ties_to_even, Overflow::saturate};
        add("encode_blocks/" + std::string(name), 5 + 1.0 / f.block_size,
            [=](const std::vector<float>& in) {
                const BlockShape s = shape(in.size(), false);
                return [=, codes = std::vector<std::uint8_t>(in.size()),
                        scales = std::vector<std::uint8_t>(s.scales(f))](
                           const std::vector<float>& x) mutable {
                    encode_blocks(std::span<const float>(x), codes, scales, s, f, p);
                };
            });
        add("decode_blocks/" + std::string(name), 5 + 1.0 / f.block_size,
            [=](const std::vector<float>& in) {
                const BlockShape s = shape(in.size(), false);
                std::vector<std::uint8_t> codes(in.size()), scales(s.scales(f));
                const float tensor_scale =
                    encode_blocks(std::span<const float>(in), codes, scales, s, f, p);
                return [=, out = std::vector<float>(in.size())](const std::vector<float>&) mutable {
                    decode_blocks(codes, scales, tensor_scale, out, s, f);
                };
            });
    }
}

// The overhead of a call on two threads.
void add_threads() {
    benchmark::RegisterBenchmark("threads/2", [](benchmark::State& state) {
        for (auto _ : state) parallel_for(2, 2, [](std::size_t) {});
    })->UseRealTime();
}

}  // namespace

int main(int argc, char** argv) {
    add_casts();
    add_blocks();
    add_threads();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
}
