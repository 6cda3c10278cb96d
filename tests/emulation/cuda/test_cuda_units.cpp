// The scales of units on a GPU, run here on the CPU, are those that the scheme's rule gives.
#include <gtest/gtest.h>

#include <cmath>

#include "emulation/cuda/allreduce/unit_scale.h"
#include "emulation/schemes/definition.h"
#include "tests/support/cuda_inputs.h"

namespace apscope::detail {
namespace {

TEST(CudaUnits, ScalesAreThoseOfTheRule) {
    for (const char* spec :
         {"aps:e4m3,unit=16", "aps:e3m4,rule=tight,unit=16", "aps:e2m1fn,rule=tight,unit=16",
          "aps:e3m0noinf,headroom=sqrt_workers,unit=16", "aps:fp16,headroom=one,unit=16",
          "aps:e4m3fn,rule=tight,headroom=sqrt_workers,unit=16", "aps:fp32,unit=16"}) {
        const Scheme scheme = parse_scheme(spec);
        const UnitEncoding& units = scheme.parts.encoding.units.value();
        for (const int workers : {1, 2, 3, 5, 7, 8, 48, 64, 1000}) {
            const BlockScaling scaling =
                make_unit_scaling([&](double amax) { return units.shift(amax, workers); });
            std::size_t wrong = 0;
            for (const float x : edge_inputs()) {
                if (std::signbit(x) || !std::isfinite(x)) continue;
                const int k = block_exponent(scaling, bits_cast<std::uint32_t>(x));
                wrong += k != -units.shift(x, workers);
            }
            // The magnitudes around the one at which the scale changes in a binade.
            for (const int exponent : {-126, -30, 0, 100}) {
                for (int step = -2; step <= 2; ++step) {
                    const std::uint32_t fraction = (scaling.round_up_from + step) & 0x7FFFFF;
                    const float x = bits_cast<float>(
                        static_cast<std::uint32_t>(exponent + 127) << 23 | fraction);
                    wrong += block_exponent(scaling, bits_cast<std::uint32_t>(x)) !=
                             -units.shift(x, workers);
                }
            }
            EXPECT_EQ(wrong, 0u) << spec << " with " << workers << " workers";
        }
    }
}

}  // namespace
}  // namespace apscope::detail
