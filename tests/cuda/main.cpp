// Proves on this machine's GPU that every kernel gives the host's bits, then times them. Arguments:
// --no-timings, --quick (quantize on the formats named, or none, instead of six), names of formats.
#include <exception>

#include "gpu.h"

int main(int argc, char** argv) try {
    using namespace apscope::detail::gpu;
    bool timings = true, quick = false;
    std::vector<std::string> names;
    for (const std::string& argument : std::vector<std::string>(argv + 1, argv + argc)) {
        if (argument == "--no-timings") timings = false;
        else if (argument == "--quick") quick = true;
        else names.push_back(argument);
    }
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::puts("skipped: this machine has no GPU that CUDA can use");
        return 77;
    }
    cudaDeviceProp device{};
    APSCOPE_CUDA(cudaGetDeviceProperties(&device, 0));
    std::printf("%s, compute capability %d.%d, %d multiprocessors\n", device.name, device.major,
                device.minor, device.multiProcessorCount);
    if (names.empty() && !quick) names = {"e4m3", "e4m3fn", "e5m2", "fp16", "bf16", "e3m0"};
    bool right = true;
    for (const auto prove : {prove_codes, prove_statistics, prove_all_reduce, prove_blocks,
                             prove_matmul, prove_replay})
        right = prove() && right;
    right = prove_quantize(names) && right;
    if (timings) print_timings();
    std::puts(right ? "all right" : "there are mismatches");
    return right ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_test: %s\n", error.what());
    return 1;
}
