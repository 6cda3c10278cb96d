// The cost of a call of the C++ library for one number, compared with the rule that it runs;
// peers.cpp times arrays.
#include <apscope/apscope.h>
#include <benchmark/benchmark.h>

#include <vector>

#include "core/philox.h"
#include "core/rounding.h"

namespace {

using namespace apscope;

const Projection projections[] = {
    {}, {.rounding = RoundingMode::toward_zero}, {.rounding = RoundingMode::stochastic}};
constexpr std::size_t some = 1024;

std::vector<float> numbers(std::size_t count) {
    std::vector<float> x(count);
    for (std::size_t i = 0; i < count; ++i)
        x[i] = (static_cast<float>(i * 7919 % 10007) - 5000.0f) / 300.0f;
    return x;
}

void name_it(benchmark::State& state, const Projection& projection) {
    state.SetLabel(std::string(to_string(projection.rounding)));
}

// Independent numbers: the cost per call in a caller's loop over an array.
void quantizer_one(benchmark::State& state) {
    const Projection& projection = projections[state.range(0)];
    const Quantizer q(format("e4m3"), projection);
    const std::vector<float> x = numbers(some);
    std::size_t i = 0;
    for (auto _ : state) {
        benchmark::DoNotOptimize(q(x[i], i));
        i = (i + 1) % some;
    }
    name_it(state, projection);
}
BENCHMARK(quantizer_one)->DenseRange(0, 2);

// The rule itself with a run-time mode, as the project's own code calls it.
void rule_one(benchmark::State& state) {
    const Projection& projection = projections[state.range(0)];
    const detail::Cast<float> cast = detail::make_cast<float>(format("e4m3"), projection);
    const detail::RandomStream stream = detail::array_stream(0, projection.drawn_bits());
    const std::vector<float> x = numbers(some);
    std::size_t i = 0;
    for (auto _ : state) {
        const std::uint64_t word = is_stochastic(projection.rounding) ? stream.at(i) : 0;
        benchmark::DoNotOptimize(detail::round_one(x[i], cast, word));
        i = (i + 1) % some;
    }
    name_it(state, projection);
}
BENCHMARK(rule_one)->DenseRange(0, 2);

}  // namespace

BENCHMARK_MAIN();
