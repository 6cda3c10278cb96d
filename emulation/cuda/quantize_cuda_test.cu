// Proves the GPU's quantize on this machine: all 2^32 fp32 inputs, bit by bit against the host's
// rule, for the formats named as arguments (by default those that `make test` proves on the CPU) in
// every rounding mode. Exit status: 0, 1 on a mismatch, 77 without a GPU.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/named_formats.h"
#include "emulation/cuda/check.h"
#include "emulation/cuda/quantize_cuda.h"
#include "emulation/quantize.h"

namespace {

using namespace apscope;

constexpr std::uint64_t inputs = std::uint64_t{1} << 32;
constexpr std::size_t chunk = std::size_t{1} << 26;

struct DeviceFree {
    void operator()(float* p) const { cudaFree(p); }
};
using DeviceArray = std::unique_ptr<float, DeviceFree>;

DeviceArray device_array(std::size_t n) {
    void* p = nullptr;
    APSCOPE_CUDA(cudaMalloc(&p, n * sizeof(float)));
    return DeviceArray(static_cast<float*>(p));
}

// f(begin, end) over parts of the chunk, on all of the machine's threads.
template <class F>
void in_parts(F f) {
    constexpr std::size_t part = std::size_t{1} << 16;
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
        threads.emplace_back([&] {
            for (std::size_t begin; (begin = next.fetch_add(part)) < chunk;) f(begin, begin + part);
        });
    }
}

// Inputs whose results differ; the first one's bits go to `first`.
std::uint64_t mismatches(const FloatFormat& format, const Projection& projection, std::uint32_t& first) {
    constexpr std::uint64_t seed = 20260101;
    std::vector<float> in(chunk), out(chunk);
    const DeviceArray device_in = device_array(chunk), device_out = device_array(chunk);
    std::atomic<std::uint64_t> wrong{0}, earliest{inputs};
    for (std::uint64_t start = 0; start < inputs; start += chunk) {
        in_parts([&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) in[i] = bits_cast<float>(static_cast<std::uint32_t>(start + i));
        });
        APSCOPE_CUDA(cudaMemcpy(device_in.get(), in.data(), chunk * sizeof(float), cudaMemcpyHostToDevice));
        quantize_on_device(device_in.get(), device_out.get(), chunk, format, projection, seed, nullptr, start);
        APSCOPE_CUDA(cudaMemcpy(out.data(), device_out.get(), chunk * sizeof(float), cudaMemcpyDeviceToHost));
        in_parts([&](std::size_t begin, std::size_t end) {
            std::vector<float> expected(end - begin);
            quantize_by_rule(std::span(in).subspan(begin, end - begin), expected, format, projection, {seed, start + begin, {}});
            if (std::memcmp(expected.data(), out.data() + begin, (end - begin) * sizeof(float)) == 0) return;
            for (std::size_t i = begin; i < end; ++i) {
                if (bits_cast<std::uint32_t>(expected[i - begin]) == bits_cast<std::uint32_t>(out[i])) continue;
                ++wrong;
                std::uint64_t least = earliest;
                while (start + i < least && !earliest.compare_exchange_weak(least, start + i)) {}
            }
        });
    }
    first = static_cast<std::uint32_t>(earliest);
    return wrong;
}

}  // namespace

int main(int argc, char** argv) try {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::puts("skipped: this machine has no GPU that CUDA can use");
        return 77;
    }
    std::vector<std::string> names(argv + 1, argv + argc);
    if (names.empty()) names = {"e4m3", "e4m3fn", "e5m2", "fp16", "bf16", "e3m0"};
    bool failed = false;
    for (const std::string& name : names) {
        const FloatFormat format = parse_format(name);
        for (int mode = 0; mode < rounding_mode_count; ++mode) {
            Projection projection;
            projection.rounding = static_cast<RoundingMode>(mode);
            std::uint32_t first = 0;
            const std::uint64_t wrong = mismatches(format, projection, first);
            std::printf("%s, %s: %llu inputs, %llu mismatches", name.c_str(),
                        std::string(to_string(projection.rounding)).c_str(), static_cast<unsigned long long>(inputs),
                        static_cast<unsigned long long>(wrong));
            if (wrong != 0) std::printf(", the first at input bits 0x%08X", static_cast<unsigned>(first));
            std::puts("");
            std::fflush(stdout);
            failed |= wrong != 0;
        }
    }
    return failed ? 1 : 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "quantize_cuda_test: %s\n", error.what());
    return 1;
}
