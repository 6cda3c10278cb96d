// The reduction of a tensor in two phases against the same steps in the host's memory, which
// tests/emulation/cuda/test_cuda_phases.cpp proves equal to an exchange on the CPU.
#include "core/named_formats.h"
#include "emulation/allreduce/shard.h"
#include "emulation/cuda/allreduce/phases_choice.h"
#include "gpu.h"
#include "tests/support/cuda_inputs.h"

namespace apscope::detail::gpu {

namespace {

constexpr PhiloxKey key{3, 4};

// Scales in turn: two that neighbours share, and one that is no power of two.
std::vector<PhaseEncoding> encodings(const char* format, RoundingMode mode, std::size_t count) {
    const double scales[] = {64.0, 64.0, 3.0, 0x1p-3};
    std::vector<PhaseEncoding> all;
    for (std::size_t i = 0; i < count; ++i)
        all.push_back({parse_format(format), {mode, Overflow::saturate}, scales[i % 4]});
    return all;
}

// Without the bits of NaNs, which a GPU's additions do not keep.
std::vector<float> numbers(std::vector<float> values) {
    for (float& v : values)
        if (v != v) v = bits_cast<float>(nan_bits<float>);
    return values;
}

}  // namespace

bool prove_phases() {
    bool right = true;
    const std::vector<float> edges = edge_numbers();
    for (const std::size_t workers : {1u, 3u, 8u, 65u}) {
        for (const std::size_t n : {std::size_t{7}, small ? std::size_t{516} : std::size_t{5001}}) {
            std::vector<float> rows = random_numbers(workers * n, 9, 7);
            if (workers == 3)
                for (std::size_t i = 0; i < rows.size(); i += 5)
                    rows[i] = edges[i * 131 % edges.size()];
            const Array<float> x(rows);
            const auto w = static_cast<int>(workers);
            for (const char* format : {"e4m3", "bf16", "e8m0fnu"}) {
                for (const RoundingMode mode :
                     {RoundingMode::ties_to_even, RoundingMode::toward_negative,
                      RoundingMode::stochastic, RoundingMode::stochastic_b}) {
                    const std::vector<PhaseEncoding> each = encodings(format, mode, workers);
                    std::vector<float> sums(n), out(n);
                    const auto on_host = [](const auto& step) { run_on_cpu(step); };
                    with_message_steps(rows.data(), n, each, key, sums.data(), on_host);
                    with_sum_steps(sums.data(), n, w, each, key, 3.0, out.data(), on_host);
                    const Array<float> device_sums(n), device_out(n);
                    add_messages_on_device(x.get(), n, each, key, device_sums.get(), nullptr);
                    encode_sums_on_device(device_sums.get(), n, w, each, key, 3.0, device_out.get(),
                                          nullptr);
                    const std::string what = "two phases of " + std::to_string(workers) + ", " +
                                             format + ", " + std::string(to_string(mode));
                    right = report(what + ", sums", numbers(sums), numbers(device_sums.read())) &&
                            right;
                    right = report(what, out, device_out.read()) && right;
                }
            }
        }
    }
    return right;
}

}  // namespace apscope::detail::gpu
