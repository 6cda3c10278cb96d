// Proves on this machine's GPU that every kernel gives the host's bits, then times them. Arguments:
// --no-timings; --no-proofs; --counts (instead of both, what every kernel needs, which the
// interpreter of PTX counts); --only-quantize; --small (fewer numbers); --quick (quantize on the
// formats named, or none, instead of six); --seconds N (begin no rounding mode of quantize later);
// --json FILE (proofs and times); names of formats.
#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "gpu.h"

int main(int argc, char** argv) try {
    using namespace apscope::detail::gpu;
    bool timings = true, proofs = true, others = true, quick = false, counts = false;
    std::vector<std::string> names;
    std::string json;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (argument == "--no-timings") timings = false;
        else if (argument == "--no-proofs") proofs = false;
        else if (argument == "--only-quantize") others = false;
        else if (argument == "--counts") timings = proofs = false, counts = true;
        else if (argument == "--small") small = true;
        else if (argument == "--quick") quick = true;
        else if (argument == "--seconds" && i + 1 < argc) quantize_seconds = std::atof(argv[++i]);
        else if (argument == "--json" && i + 1 < argc) json = argv[++i];
        else if (argument.starts_with("-")) throw std::invalid_argument("no option " + argument);
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
    found.device = device.name;
    if (names.empty() && !quick && proofs)
        names = {"e4m3", "e4m3fn", "e5m2", "fp16", "bf16", "e3m0"};
    bool right = true;
    for (const auto prove : {prove_codes, prove_statistics, prove_all_reduce, prove_phases,
                             prove_blocks, prove_matmul, prove_replay}) {
        if (proofs && others) right = prove() && right;
    }
    if (proofs) right = prove_quantize(names) && right;
    if (timings) print_timings();
    if (counts) {
        if (print_counts == nullptr)
            throw std::invalid_argument(
                "--counts needs the interpreter: run interpreted_cuda_test");
        print_counts();
    }
    if (!json.empty()) write_json(json);
    std::puts(right ? "all right" : "there are mismatches");
    return right ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_test: %s\n", error.what());
    return 1;
}
