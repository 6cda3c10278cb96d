// quantize on all 2^32 fp32 inputs, bit by bit against the host's rule, in every rounding mode.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/named_formats.h"
#include "emulation/cast/quantize.h"
#include "emulation/cuda/cast/quantize_cuda.h"
#include "gpu.h"

namespace apscope::detail::gpu {

namespace {

constexpr std::uint64_t inputs = std::uint64_t{1} << 32;
constexpr std::size_t chunk = std::size_t{1} << 26;
constexpr std::uint64_t seed = 20260101;

// Inputs whose results differ; the first one's bits go to `first`.
std::uint64_t mismatches(const FloatFormat& format, const Projection& projection,
                         std::uint32_t& first) {
    std::vector<float> in(chunk), out(chunk);
    const Array<float> device_in(chunk), device_out(chunk);
    std::atomic<std::uint64_t> wrong{0}, earliest{inputs};
    for (std::uint64_t start = 0; start < inputs; start += chunk) {
        in_parts(chunk, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i)
                in[i] = bits_cast<float>(static_cast<std::uint32_t>(start + i));
        });
        APSCOPE_CUDA(
            cudaMemcpy(device_in.get(), in.data(), chunk * sizeof(float), cudaMemcpyHostToDevice));
        quantize_on_device(device_in.get(), device_out.get(), chunk, format, projection, seed,
                           nullptr, start);
        APSCOPE_CUDA(cudaMemcpy(out.data(), device_out.get(), chunk * sizeof(float),
                                cudaMemcpyDeviceToHost));
        in_parts(chunk, [&](std::size_t begin, std::size_t end) {
            std::vector<float> expected(end - begin);
            quantize_by_rule(std::span(in).subspan(begin, end - begin), expected, format,
                             projection, {seed, start + begin, {}});
            if (std::memcmp(expected.data(), out.data() + begin, (end - begin) * sizeof(float)) ==
                0)
                return;
            for (std::size_t i = begin; i < end; ++i) {
                if (bits_cast<std::uint32_t>(expected[i - begin]) ==
                    bits_cast<std::uint32_t>(out[i]))
                    continue;
                ++wrong;
                std::uint64_t found = earliest;
                while (start + i < found && !earliest.compare_exchange_weak(found, start + i)) {}
            }
        });
    }
    first = static_cast<std::uint32_t>(earliest);
    return wrong;
}

}  // namespace

bool prove_quantize(const std::vector<std::string>& formats) {
    bool right = true;
    const auto start = std::chrono::steady_clock::now();
    for (const std::string& name : formats) {
        const FloatFormat format = parse_format(name);
        for (int mode = 0; mode < rounding_mode_count; ++mode) {
            const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
            if (passed.count() > quantize_seconds) return right;
            Projection projection;
            projection.rounding = static_cast<RoundingMode>(mode);
            std::uint32_t first = 0;
            const std::uint64_t wrong = mismatches(format, projection, first);
            std::printf("quantize %s, %s: %llu inputs, %llu mismatches", name.c_str(),
                        std::string(to_string(projection.rounding)).c_str(),
                        static_cast<unsigned long long>(inputs),
                        static_cast<unsigned long long>(wrong));
            if (wrong != 0)
                std::printf(", the first at input bits 0x%08X", static_cast<unsigned>(first));
            std::puts("");
            std::fflush(stdout);
            count_proof("quantize " + name + ", " + std::string(to_string(projection.rounding)),
                        inputs, wrong == 0);
            right = right && wrong == 0;
        }
    }
    return right;
}

}  // namespace apscope::detail::gpu
