// Median times of kernels compared with a device-to-device copy of as many bytes, and of matrix
// products compared with the device's fp32 multiply-adds.
#include <chrono>

#include "analysis/cuda/error_cuda.h"
#include "analysis/cuda/replay_cuda.h"
#include "core/named_formats.h"
#include "emulation/cuda/allreduce/reduce_cuda.h"
#include "emulation/cuda/arithmetic/matmul_cuda.h"
#include "emulation/cuda/blocks/blocks_cuda.h"
#include "emulation/cuda/cast/quantize_cuda.h"
#include "gpu.h"

namespace apscope::detail::gpu {

namespace {

// A copy that reads and writes as many bytes together as the kernel does.
void beside_copy(const std::string& what, double bytes, const std::function<void()>& call) {
    static const Array<std::uint8_t> from(std::size_t{1} << 30), to(std::size_t{1} << 30);
    const auto half = static_cast<std::size_t>(bytes / 2);
    const auto copy = [&] {
        APSCOPE_CUDA(cudaMemcpyAsync(to.get(), from.get(), half, cudaMemcpyDeviceToDevice));
    };
    const double before = median_seconds(copy), seconds = median_seconds(call),
                 after = median_seconds(copy);
    const double floor = (before + after) / 2;
    std::printf("%-44s %9.3f ms %8.0f GB/s   copy %8.3f ms   ratio %.2f\n", what.c_str(),
                seconds * 1e3, bytes / seconds * 1e-9, floor * 1e3, seconds / floor);
    found.timings.push_back(
        {what, seconds * 1e3, seconds / floor, "device copy", bytes / seconds * 1e-9, "GB/s"});
    std::fflush(stdout);
}

// A complete item of replay(), including the copies of the rows to the GPU and of the sums back.
void time_replay() {
    constexpr std::size_t workers = 8, n = std::size_t{1} << 22;
    std::vector<std::vector<float>> rows;
    for (std::size_t w = 0; w < workers; ++w)
        rows.push_back(random_numbers(n, 10, static_cast<std::uint32_t>(w + 1)));
    const std::vector<std::span<const float>> given(rows.begin(), rows.end());
    const std::vector<RowTask> tasks = replay_tasks();
    const std::unique_ptr<RowDevice> device = make_row_device(0);
    const BatchNoise noise = batch_noise(given, true);
    double best = 0.0;
    for (int i = 0; i < 5; ++i) {
        const auto start = std::chrono::steady_clock::now();
        device->run(given, workers, noise.blocks, tasks);
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (i == 0 || seconds < best) best = seconds;
    }
    const double rate = static_cast<double>(workers * n * tasks.size()) / best * 1e-6;
    const std::string what = "replay of 8 workers, 2^22 elements, " + std::to_string(tasks.size()) +
                             " schemes with their topologies";
    std::printf("%s: %.1f ms, %.0f 10^6 values and schemes a second\n", what.c_str(), best * 1e3,
                rate);
    found.timings.push_back({what, best * 1e3, 0.0, "", rate, "10^6 values and schemes a second"});
    std::fflush(stdout);
}

}  // namespace

void print_timings() {
    time_replay();
    constexpr std::size_t n = std::size_t{1} << 27;
    constexpr double size = n;
    const FloatFormat f = parse_format("e4m3");
    const Array<float> x(random_numbers(n, 10, 1)), y(n);
    const Array<std::uint8_t> codes(n), scales(n / 16);
    for (const RoundingMode mode :
         {RoundingMode::ties_to_even, RoundingMode::toward_zero, RoundingMode::stochastic,
          RoundingMode::stochastic_b, RoundingMode::stochastic_exact}) {
        for (const int random_bits : {16, 32}) {
            if (random_bits == 16 && mode != RoundingMode::stochastic) continue;
            const Projection p{mode, Overflow::ieee, random_bits};
            beside_copy(
                "quantize e4m3, " + std::string(to_string(mode)) +
                    (is_stochastic(mode) ? ", " + std::to_string(random_bits) + " bits" : ""),
                8 * size, [&] { quantize_on_device(x.get(), y.get(), n, f, p, 1, nullptr); });
        }
    }
    beside_copy("encode e4m3", 5 * size, [&] {
        encode_on_device(x.get(), codes.get(), n, f, {}, std::nullopt, 1, nullptr);
    });
    beside_copy("decode e4m3", 5 * size,
                [&] { decode_on_device(codes.get(), y.get(), n, f, false, nullptr); });
    beside_copy("quantize and error statistics, e4m3", 8 * size, [&] {
        quantize_statistics_on_device(x.get(), y.get(), n, f, {}, 1.0, 1, nullptr);
    });
    for (const char* name : {"mxfp8_e4m3", "nvfp4"}) {
        const BlockFormat blocks = parse_block_format(name);
        const Projection p{RoundingMode::ties_to_even, Overflow::saturate};
        beside_copy(std::string("quantize ") + name, 8 * size, [&] {
            quantize_blocks_on_device(x.get(), y.get(), {1, n, 1}, blocks, p, 1, nullptr);
        });
        beside_copy(std::string("encode ") + name, 5 * size, [&] {
            encode_blocks_on_device(x.get(), codes.get(), scales.get(), {1, n, 1}, blocks, p, 1,
                                    nullptr);
        });
    }
    for (const char* topology : {"ring", "tree", "sequential+kahan"}) {
        AllReduceOptions options;
        options.topology = parse_topology(topology);
        const Array<double> sums(n / 8);
        beside_copy(
            std::string("all-reduce of 8 rows, e4m3, ") + topology, (8 * 4 + 8) * size / 8,
            [&] { all_reduce_on_device(x.get(), 8, sums.get(), n / 8, f, options, {}, nullptr); });
    }
    const double peak = multiply_adds_a_second();
    std::printf("fp32 multiply-adds: %.2f 10^12 a second\n", peak * 1e-12);
    constexpr std::size_t side = 2048;
    const auto time_matmul = [&](const SumOptions& options, const std::string& name) {
        const double seconds = median_seconds(
            [&] {
                matmul_on_device(x.get(), x.get() + side * side, nullptr, y.get(), 1, side, side,
                                 side, options, nullptr);
            },
            5);
        const double rate = static_cast<double>(side) * side * side / seconds;
        const std::string what = "matmul 2048^3, " + name;
        std::printf("%s: %.3f ms, %.3f 10^12 steps a second, 1/%.0f of the multiply-adds\n",
                    what.c_str(), seconds * 1e3, rate * 1e-12, peak / rate);
        found.timings.push_back({what, seconds * 1e3, peak / rate, "fp32 multiply-adds",
                                 rate * 1e-12, "10^12 steps a second"});
        std::fflush(stdout);
    };
    for (const char* order : {"sequential", "chunked:64", "pairwise", "kahan"}) {
        for (const char* product : {"", "e4m3"}) {
            SumOptions options;
            options.order = parse_sum_order(order);
            options.format = parse_format("fp16");
            if (*product != '\0') options.product = parse_format(product);
            time_matmul(options, std::string("fp16, ") + order + ", product " +
                                     (*product ? product : "exact"));
        }
    }
    // The rules of h100 and h100:fp8 for any fp32 numbers.
    for (const char* order :
         {"unit:k=16,fraction=25,result=23", "unit:k=32,fraction=13,result=13"}) {
        SumOptions options;
        options.order = parse_sum_order(order);
        options.format = parse_format("fp32");
        time_matmul(options, std::string("fp32, ") + order);
    }
}

}  // namespace apscope::detail::gpu
