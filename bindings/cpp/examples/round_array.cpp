// Rounds an array to formats of 8 bits and fewer, and prints each result and its error.
#include <apscope/apscope.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
    const std::vector<float> x = {0.1f, 1.0f, -3.14159f, 250.0f, 1e-3f};

    for (const char* name : {"e4m3", "e5m2", "float8_e4m3fn", "e2m1fn"}) {
        const apscope::FloatFormat format = apscope::format(name);
        const apscope::Quantizer quantize{format};
        std::vector<float> y(x.size());
        quantize(x, y);

        std::printf("%-14s %d bits, largest %g\n", name, format.storage_bits(), format.largest());
        for (std::size_t i = 0; i < x.size(); ++i) {
            std::printf("  %10g -> %10g   error %9.2g\n", x[i], y[i],
                        static_cast<double>(y[i]) - x[i]);
        }
    }

    // Rounding to nearest is the default; a projection chooses another rounding.
    const apscope::Quantizer up{apscope::format("e4m3"),
                                {.rounding = apscope::RoundingMode::toward_positive}};
    const apscope::Quantizer clamp{apscope::format("e4m3"),
                                   {.overflow = apscope::Overflow::saturate}};
    std::printf("toward_positive: 0.1 -> %g; saturate: 250 -> %g\n", up(0.1f), clamp(250.0f));

    // Stochastic rounding: element i uses word i of a stream, so equal calls give equal results.
    const apscope::Quantizer draw{
        apscope::format("e4m3"), {.rounding = apscope::RoundingMode::stochastic}, /*seed=*/7};
    double mean = 0.0;
    const int draws = 100000;
    for (int i = 0; i < draws; ++i) mean += draw(0.1f, i) / draws;
    std::printf("stochastic: the mean of %d draws of 0.1 is %.4f\n", draws, mean);
}
