// Casts of fp32 numbers by the C++ library, beside what else a C++ program has: memcpy of as many
// bytes, a loop of frexp and ldexp, the compiler's own types, CPFloat where it is installed. All
// read one array and write one array. Before a cast is timed, its results are compared with the
// library's. docs/tools/cpp_peers.py runs the program and writes the table of docs/performance.md.
#include <apscope/apscope.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#ifdef APSCOPE_HAS_CPFLOAT
// CPFloat's header includes these, which must not have C linkage in C++.
#include <fenv.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
extern "C" {
#include <cpfloat.h>
}
#endif

namespace {

using namespace apscope;
using In = std::span<const float>;
using Out = std::span<float>;
using Cast = std::function<void(In, Out)>;

constexpr std::size_t least = 16, most = std::size_t{1} << 26, step = 4;
// The loop takes tens of nanoseconds a number, of any array: seconds for the longest.
constexpr std::size_t most_of_loop = std::size_t{1} << 22;

// A format and a rounding, and the names that the table has for them.
struct Case {
    const char* name;
    FloatFormat format;
    RoundingMode rounding;

    bool draws() const { return is_stochastic(rounding); }
    std::string title(const std::string& who) const {
        return who + "|" + name + "|" + std::string(to_string(rounding));
    }
};

// The arrays of all casts. The numbers lie in eight binades, half of them are negative, and some
// overflow in e4m3 or are subnormal.
In numbers(std::size_t count) {
    static const std::vector<float> all = [] {
        std::vector<float> x(most);
        std::minstd_rand random(7);
        for (float& number : x) {
            const auto word = static_cast<std::uint32_t>(random());
            number = std::ldexp(static_cast<float>(word % 4001) - 2000.0f,
                                static_cast<int>(word >> 16 & 7) - 13);
        }
        return x;
    }();
    return In(all).first(count);
}
Out results(std::size_t count) {
    static std::vector<float> all(most);
    return Out(all).first(count);
}

// The text of what is wrong with a cast; empty if its results are the library's, or, drawn, one of
// the two neighbours of every number.
std::string difference(const Case& of, const Cast& cast) {
    const In x = numbers(4096);
    const Out found = results(x.size());
    cast(x, found);
    const Quantizer down(of.format,
                         {.rounding = of.draws() ? RoundingMode::toward_negative : of.rounding}),
        up(of.format, {.rounding = of.draws() ? RoundingMode::toward_positive : of.rounding});
    for (std::size_t i = 0; i < x.size(); ++i)
        if (found[i] != down(x[i]) && found[i] != up(x[i]))
            return std::to_string(x[i]) + " became " + std::to_string(found[i]);
    return "";
}

void time_cast(benchmark::State& state, const Cast& cast, const std::string& wrong) {
    const auto count = static_cast<std::size_t>(state.range(0));
    if (!wrong.empty()) state.SkipWithError(wrong.c_str());
    const In x = numbers(count);
    const Out y = results(count);
    for (auto _ : state) {
        cast(x, y);
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * state.range(0));
}

void add(const std::string& title, const Cast& cast, const std::string& wrong = "",
         std::size_t longest = most) {
    benchmark::RegisterBenchmark(
        title.c_str(), [cast, wrong](benchmark::State& state) { time_cast(state, cast, wrong); })
        ->RangeMultiplier(step)
        ->Range(least, static_cast<std::int64_t>(longest))
        ->UseRealTime();
}
void add(const std::string& who, const Case& of, const Cast& cast, std::size_t longest = most) {
    add(of.title(who), cast, difference(of, cast), longest);
}

// A cast as a program writes it that has no library: the exponent by frexp, the number in units of
// its last place, rounded to an integer, and back.
template <class ToInteger>
void loop(const FloatFormat& f, In x, Out y, ToInteger to_integer) {
    const int precision = f.precision(), finest = f.finest_exponent();
    const auto largest = static_cast<float>(f.largest());
    for (std::size_t i = 0; i < x.size(); ++i) {
        int exponent = 0;
        std::frexp(x[i], &exponent);
        const int unit = std::max(exponent - precision, finest);
        const float rounded = std::ldexp(to_integer(std::ldexp(x[i], -unit)), unit);
        y[i] = std::abs(rounded) > largest
                   ? std::copysign(std::numeric_limits<float>::infinity(), rounded)
                   : rounded;
    }
}

Cast loop_of(const Case& of) {
    if (!of.draws())
        return [f = of.format](In x, Out y) {
            loop(f, x, y, [](float units) { return std::nearbyint(units); });
        };
    return [f = of.format, random = std::mt19937(7)](In x, Out y) mutable {
        std::uniform_real_distribution<float> uniform;
        loop(f, x, y, [&](float units) { return std::floor(units + uniform(random)); });
    };
}

template <class Type>
void convert(In x, Out y) {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = static_cast<float>(static_cast<Type>(x[i]));
}

#ifdef APSCOPE_HAS_CPFLOAT
// The fields that only some versions have are set where they exist.
template <class Options>
void set(Options& options, const Case& of) {
    options.precision = static_cast<decltype(options.precision)>(of.format.precision());
    options.emax = of.format.emax();
    if constexpr (requires { options.emin; }) options.emin = of.format.emin();
    if constexpr (requires { options.infinity; })
        options.infinity = static_cast<decltype(options.infinity)>(1);
    if constexpr (requires { options.saturation; })
        options.saturation = static_cast<decltype(options.saturation)>(0);
    options.explim = static_cast<decltype(options.explim)>(1);
    options.subnormal = static_cast<decltype(options.subnormal)>(1);
    options.round = of.draws() ? CPFLOAT_RND_SP : CPFLOAT_RND_NE;
    options.flip = static_cast<decltype(options.flip)>(0);
}

Cast cpfloat_of(const Case& of) {
    optstruct* options = init_optstruct();  // until the program ends
    set(*options, of);
    return [options](In x, Out y) { cpfloatf(y.data(), x.data(), x.size(), options); };
}
#endif

}  // namespace

int main(int argc, char** argv) {
    add("memcpy||", [](In x, Out y) { std::memcpy(y.data(), x.data(), x.size_bytes()); });
    for (const RoundingMode rounding : {RoundingMode::ties_to_even, RoundingMode::stochastic}) {
        for (const char* name : {"e4m3", "e5m2", "bfloat16", "binary16"}) {
            const Case of{name, format(name), rounding};
            for (const int threads : {1, 0}) {
                const Quantizer q(of.format, {.rounding = rounding}, 0, threads);
                add(threads == 1 ? "apscope, 1 thread" : "apscope, all threads", of,
                    [q](In x, Out y) { q(x, y); });
            }
            add("frexp and ldexp", of, loop_of(of), most_of_loop);
#ifdef __FLT16_MANT_DIG__
            if (of.format == format("binary16") && !of.draws())
                add("_Float16", of, convert<_Float16>);
#endif
#ifdef __BFLT16_MANT_DIG__
            if (of.format == format("bfloat16") && !of.draws()) add("__bf16", of, convert<__bf16>);
#endif
#ifdef APSCOPE_HAS_CPFLOAT
            add("CPFloat", of, cpfloat_of(of));
#endif
        }
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
}
