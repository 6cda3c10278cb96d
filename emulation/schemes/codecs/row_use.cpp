#include "emulation/schemes/codecs/row_use.h"

#include <algorithm>

#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

struct RowUse {
    std::uint64_t subnormal, saturated;
    double max_ulp;
};

struct Look {
    static APSCOPE_INLINE void run(const double* x, const double* codes, const double* values,
                                   const double* scales, std::size_t count, const GridLimits* given,
                                   RowUse* use) {
        constexpr std::size_t lanes = 16;
        const GridLimits grid = *given;
        const UlpScale ulps = ulp_scale(grid.emin, grid.mantissa_bits, 1.0, 1.0 / grid.divisor);
        const double infinite = bits_cast<double>(infinity_bits<double>);
        std::uint64_t subnormal[lanes] = {}, saturated[lanes] = {};
        double most[lanes] = {};
        const auto look = [&](std::size_t i, std::size_t l) __attribute__((always_inline)) {
            const double size = absolute(x[i]), scaled = absolute(x[i] * scales[i]);
            const bool finite = size < infinite;
            subnormal[l] += finite & (scaled != 0.0) & (scaled < grid.smallest_normal) ? 1 : 0;
            saturated[l] += finite & is_saturated(scaled, absolute(codes[i]), grid.largest) ? 1 : 0;
            UlpScale scaled_ulps = ulps;
            scaled_ulps.scale = scales[i];
            const double error = in_ulps(size, absolute(values[i] - x[i]), scaled_ulps);
            const double counted = finite & (absolute(values[i]) < infinite) ? error : 0.0;
            most[l] = counted > most[l] ? counted : most[l];
        };
        std::size_t i = 0;
        for (; i + lanes <= count; i += lanes) {
#pragma GCC ivdep  // the lanes do not overlap the inputs
#pragma GCC unroll 1
            for (std::size_t l = 0; l < lanes; ++l) look(i + l, l);
        }
        for (std::size_t l = 0; i + l < count; ++l) look(i + l, l);
        RowUse all{0, 0, 0.0};
        for (std::size_t l = 0; l < lanes; ++l) {
            all.subnormal += subnormal[l];
            all.saturated += saturated[l];
            all.max_ulp = std::max(all.max_ulp, most[l]);
        }
        *use = all;
    }
};

struct Mark {
    static APSCOPE_INLINE void run(const double* x, const double* codes, const double* scales,
                                   std::size_t count, double largest, std::uint8_t* marks) {
        const double infinite = bits_cast<double>(infinity_bits<double>);
#pragma GCC ivdep  // the marks do not overlap the inputs
        for (std::size_t i = 0; i < count; ++i) {
            const bool saturated =
                (absolute(x[i]) < infinite) &
                is_saturated(absolute(x[i] * scales[i]), absolute(codes[i]), largest);
            marks[i] = saturated ? 1 : 0;
        }
    }
};

}  // namespace

void add_row(GridUse& use, std::span<const double> x, const double* codes, const double* values,
             const double* scales, const GridLimits& grid, std::vector<std::uint8_t>& marks,
             std::size_t first, std::size_t size) {
    RowUse use_of_row{0, 0, 0.0};
    simd::run<Look>(x.data(), codes, values, scales, x.size(), &grid, &use_of_row);
    use.merge({use_of_row.subnormal, use_of_row.saturated, use_of_row.max_ulp});
    if (use_of_row.saturated == 0) return;
    marks.resize(size);
    simd::run<Mark>(x.data(), codes, scales, x.size(), grid.largest, marks.data() + first);
}

}  // namespace apscope::detail
