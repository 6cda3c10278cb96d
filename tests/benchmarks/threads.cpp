// The time of a cast by the number of threads and of numbers: the table of docs/performance.md.
// Every round times all numbers of threads one after another. The program prints the least time of
// each over the rounds, which other programs lengthen least.
#include <apscope/apscope.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

namespace {

using namespace apscope;
using Clock = std::chrono::steady_clock;

constexpr std::array threads = {1, 0, 2, 64};

// Nanoseconds a call, of enough calls for the clock.
double time_of(const Quantizer& q, const std::vector<float>& x, std::vector<float>& y) {
    const std::size_t calls = std::max<std::size_t>(1, 200'000 / (x.size() + 100));
    const Clock::time_point began = Clock::now();
    for (std::size_t i = 0; i < calls; ++i) q(x, y);
    return std::chrono::duration<double, std::nano>(Clock::now() - began).count() /
           static_cast<double>(calls);
}

void measure(const char* name, const Projection& projection, int rounds) {
    for (std::size_t bits = 4; bits <= 24; bits += 2) {
        const std::size_t count = std::size_t{1} << bits;
        std::vector<float> x(count), y(count);
        for (std::size_t i = 0; i < count; ++i)
            x[i] = (static_cast<float>(i * 7919 % 10007) - 5000.0f) / 300.0f;
        std::map<int, double> least;  // by the number of threads
        for (int round = 0; round < rounds; ++round) {
            for (const int t : threads) {
                const double time = time_of(Quantizer(format("e4m3"), projection, 0, t), x, y);
                const auto [at, first] = least.try_emplace(t, time);
                at->second = std::min(at->second, time);
            }
        }
        std::printf("| %s | 2^%zu | %.3g |", name, bits, least[1] / 1000);
        for (const int t : {0, 2, 64}) std::printf(" %.2f |", least[t] / least[1]);
        std::printf("\n");
        std::fflush(stdout);
    }
}

}  // namespace

int main(int count, char** words) {
    const int rounds = count > 1 ? std::atoi(words[1]) : 40;
    std::printf("| cast | numbers | us on 1 thread | of that on all (0) | on 2 | on 64 |\n"
                "|---|---|---|---|---|---|\n");
    measure("ties_to_even", {}, rounds);
    measure("stochastic", {.rounding = RoundingMode::stochastic}, rounds);
}
