// Median times of kernels compared with a device-to-device copy of as many bytes, and of matrix
// products compared with the device's fp32 multiply-adds.
#include <chrono>

#include "analysis/cuda/replay_cuda.h"
#include "gpu.h"
#include "jobs.h"

namespace apscope::detail::gpu {

namespace {

// A copy that reads and writes as many bytes together as the kernel does.
void beside_copy(const Job& job) {
    static const Array<std::uint8_t> from(std::size_t{1} << 30), to(std::size_t{1} << 30);
    const auto half = static_cast<std::size_t>(job.bytes / 2);
    const auto copy = [&] {
        APSCOPE_CUDA(cudaMemcpyAsync(to.get(), from.get(), half, cudaMemcpyDeviceToDevice));
    };
    const double before = median_seconds(copy), seconds = median_seconds(job.call),
                 after = median_seconds(copy);
    const double floor = (before + after) / 2;
    std::printf("%-44s %9.3f ms %8.0f GB/s   copy %8.3f ms   ratio %.2f\n", job.name.c_str(),
                seconds * 1e3, job.bytes / seconds * 1e-9, floor * 1e3, seconds / floor);
    found.timings.push_back({job.name, seconds * 1e3, seconds / floor, "device copy",
                             job.bytes / seconds * 1e-9, "GB/s"});
    std::fflush(stdout);
}

void beside_multiply_adds(const Job& job, double peak) {
    const double seconds = median_seconds(job.call, 5), rate = job.numbers / seconds;
    std::printf("%s: %.3f ms, %.3f 10^12 steps a second, 1/%.0f of the multiply-adds\n",
                job.name.c_str(), seconds * 1e3, rate * 1e-12, peak / rate);
    found.timings.push_back({job.name, seconds * 1e3, peak / rate, "fp32 multiply-adds",
                             rate * 1e-12, "10^12 steps a second"});
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
    const double peak = multiply_adds_a_second();
    std::printf("fp32 multiply-adds: %.2f 10^12 a second\n", peak * 1e-12);
    for (const Job& job : kernel_jobs(std::size_t{1} << 27, 2048)) {
        if (job.bytes != 0) beside_copy(job);
        else beside_multiply_adds(job, peak);
    }
}

}  // namespace apscope::detail::gpu
