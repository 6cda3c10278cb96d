// Exchanges of several steps as hexadecimal numbers, for comparison with Python: dump_exchange FILE
// WORKERS STEPS SPEC. FILE has the gradients as fp32 numbers, step by step, worker by worker.
#include <apscope/apscope.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <vector>

namespace {

void print(const char* what, const std::vector<double>& row) {
    std::printf("%s", what);
    for (const double x : row) std::printf(" %a", x);
    std::printf("\n");
}

}  // namespace

int main(int count, char** words) {
    if (count != 5) return 1;
    std::ifstream file(words[1], std::ios::binary | std::ios::ate);
    std::vector<float> all(static_cast<std::size_t>(file.tellg()) / sizeof(float));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(all.data()),
              static_cast<std::streamsize>(all.size() * sizeof(float)));
    const auto workers = static_cast<std::size_t>(std::atoi(words[2])),
               steps = static_cast<std::size_t>(std::atoi(words[3])),
               size = all.size() / workers / steps;
    apscope::Memory memory;
    for (std::size_t step = 0; step < steps; ++step) {
        std::vector<std::span<const float>> rows;
        for (std::size_t w = 0; w < workers; ++w)
            rows.push_back(std::span(all).subspan((step * workers + w) * size, size));
        apscope::ExchangeInputs inputs;
        inputs.topology = "ring";
        inputs.step = static_cast<std::int64_t>(step);
        inputs.index = step;
        inputs.tensor = "fc.weight";
        inputs.seed = 5;
        inputs.loss = 1.5;
        inputs.learning_rate = 0.1;
        inputs.weights = inputs.full_batch = rows[0];
        inputs.packs = true;
        const apscope::ExchangeResult e = apscope::exchange(words[4], rows, inputs, memory);
        print("reduced", e.reduced);
        for (std::size_t w = 0; w < workers; ++w) {
            print("intended", e.intended[w]);
            print("sent", e.sent[w]);
            if (!e.variance.empty()) print("variance", e.variance[w]);
            std::printf("bits %llu %llu\n", static_cast<unsigned long long>(e.payload_bits[w]),
                        static_cast<unsigned long long>(e.side_bits[w]));
            std::printf("payload");
            for (const std::uint8_t byte : e.payload[w]) std::printf(" %d", byte);
            std::printf("\n");
        }
        std::printf("reduction %s %d\n", e.reduction.c_str(), e.skipped ? 1 : 0);
        for (const auto& [name, row] : memory) print(("memory " + name).c_str(), row);
    }
}
