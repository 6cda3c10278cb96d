// Sums the gradients of eight workers in every order that collectives use; the results differ only
// because of the order.
#include <apscope/apscope.h>

#include <cstdio>
#include <vector>

int main() {
    constexpr std::size_t workers = 8, elements = 4096;
    std::vector<std::vector<float>> gradients(workers, std::vector<float>(elements));
    for (std::size_t w = 0; w < workers; ++w) {
        for (std::size_t i = 0; i < elements; ++i) {
            gradients[w][i] = static_cast<float>((w * 31 + i * 37) % 101) / 256.0f - 0.15f;
        }
    }
    std::vector<double> reference(elements, 0.0);
    for (const auto& row : gradients) {
        for (std::size_t i = 0; i < elements; ++i) reference[i] += row[i];
    }

    const apscope::FloatFormat format = apscope::format("e4m3");
    std::printf("%-22s %12s %12s\n", "order", "NMSE", "first sum");
    for (const char* topology : {"exact", "sequential", "ring", "tree", "hierarchical:4",
                                 "sequential+kahan", "hierarchical:4+kahan"}) {
        const std::vector<double> sum =
            apscope::allreduce(gradients, format, {.topology = topology});
        double error = 0.0, power = 0.0;
        for (std::size_t i = 0; i < elements; ++i) {
            error += (sum[i] - reference[i]) * (sum[i] - reference[i]);
            power += reference[i] * reference[i];
        }
        std::printf("%-22s %12.4e %12g\n", topology, error / power, sum[0]);
    }

    // With partial sums in a wider format, only the error of rounding the inputs is left.
    const std::vector<double> wide = apscope::allreduce(
        gradients, format, {.topology = "ring", .accumulate = apscope::format("fp32")});
    std::printf("%-22s %12s %12g\n", "ring, fp32 sums", "", wide[0]);
}
