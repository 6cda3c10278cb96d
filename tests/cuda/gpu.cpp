#include "gpu.h"

#include <algorithm>
#include <stdexcept>

#include "core/bits.h"
#include "core/philox.h"

namespace apscope::detail::gpu {

void in_parts(std::size_t count, const std::function<void(std::size_t, std::size_t)>& f) {
    constexpr std::size_t part = std::size_t{1} << 16;
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
        threads.emplace_back([&] {
            for (std::size_t begin; (begin = next.fetch_add(part)) < count;)
                f(begin, std::min(count, begin + part));
        });
    }
}

double median_seconds(const std::function<void()>& call, int repeats) {
    cudaEvent_t start, stop;
    APSCOPE_CUDA(cudaEventCreate(&start));
    APSCOPE_CUDA(cudaEventCreate(&stop));
    std::vector<float> milliseconds;
    for (int i = -3; i < repeats; ++i) {
        APSCOPE_CUDA(cudaEventRecord(start));
        call();
        APSCOPE_CUDA(cudaEventRecord(stop));
        APSCOPE_CUDA(cudaEventSynchronize(stop));
        float time = 0;
        APSCOPE_CUDA(cudaEventElapsedTime(&time, start, stop));
        if (i >= 0) milliseconds.push_back(time);
    }
    APSCOPE_CUDA(cudaEventDestroy(start));
    APSCOPE_CUDA(cudaEventDestroy(stop));
    std::nth_element(milliseconds.begin(), milliseconds.begin() + repeats / 2, milliseconds.end());
    return milliseconds[static_cast<std::size_t>(repeats / 2)] / 1000.0;
}

void count_proof(const std::string& what, std::uint64_t values, bool right) {
    ++found.proofs;
    found.values += values;
    if (right) return;
    if (found.wrong_proofs++ == 0) found.first_wrong = what;
}

// The texts are this program's own and the device's name: no character needs to be escaped.
void write_json(const std::string& path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"),
                                                               std::fclose);
    if (!file) throw std::runtime_error("cannot write " + path);
    std::fprintf(file.get(),
                 "{\"device\": \"%s\", \"proofs\": %llu, \"values\": %llu, \"wrong_proofs\": %llu, "
                 "\"first_wrong\": \"%s\", \"timings\": [",
                 found.device.c_str(), static_cast<unsigned long long>(found.proofs),
                 static_cast<unsigned long long>(found.values),
                 static_cast<unsigned long long>(found.wrong_proofs), found.first_wrong.c_str());
    const char* comma = "\n";
    for (const Timing& t : found.timings) {
        std::fprintf(file.get(),
                     "%s{\"job\": \"%s\", \"ms\": %.6g, \"of_floor\": %.6g, \"floor\": \"%s\", "
                     "\"rate\": %.6g, \"unit\": \"%s\"}",
                     comma, t.job.c_str(), t.milliseconds, t.of_floor, t.floor.c_str(), t.rate,
                     t.unit.c_str());
        comma = ",\n";
    }
    std::fputs("], \"counts\": [", file.get());
    comma = "\n";
    for (const CountedJob& c : found.counts) {
        std::fprintf(file.get(),
                     "%s{\"job\": \"%s\", \"bytes\": %.6g, \"slots\": %.6g, \"loaded\": %.6g, "
                     "\"stored\": %.6g",
                     comma, c.job.c_str(), c.bytes, c.slots, c.loaded, c.stored);
        for (const auto& [name, number] : c.instructions)
            std::fprintf(file.get(), ", \"%s\": %.6g", name.c_str(), number);
        std::fputs("}", file.get());
        comma = ",\n";
    }
    std::fputs("]}\n", file.get());
}

std::vector<float> edge_numbers() {
    std::vector<float> values;
    for (std::uint32_t top = 0; top < 1 << 16; top += small ? 61 : 1) {
        values.push_back(bits_cast<float>(top << 16));
        values.push_back(
            bits_cast<float>(top << 16 | (philox({{top, 0, 0, 0}}, {1, 2}).word[0] & 0xFFFF)));
    }
    return values;
}

std::vector<float> random_numbers(std::size_t n, int spread, std::uint32_t seed) {
    std::vector<float> values(n);
    in_parts(n, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
            const PhiloxBlock b = philox({{static_cast<std::uint32_t>(i), 0, 0, 0}}, {seed, 9});
            const std::uint32_t exponent = static_cast<std::uint32_t>(127 - spread) +
                                           b.word[1] % static_cast<std::uint32_t>(2 * spread);
            values[i] = bits_cast<float>((b.word[0] & 0x80000000u) | exponent << 23 |
                                         (b.word[0] & 0x7FFFFFu));
        }
    });
    return values;
}

}  // namespace apscope::detail::gpu
