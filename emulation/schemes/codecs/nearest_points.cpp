#include "emulation/schemes/codecs/nearest_points.h"

#include <algorithm>
#include <cmath>

#include "core/fixed_shape_sum.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/codecs/levels.h"

namespace apscope::detail {

namespace {

constexpr std::size_t group = 256;
static_assert(sum_block % group == 0 && group % sum_lanes == 0);

// z of a group, and how many elements lie so near to the middle of two levels that the roundings of encode_levels
// decide. Elsewhere the nearest integer to u largest is what counts.
struct NearestLevels {
    // Levels are (k + offset) / largest: k whole, offset 0 or 1/2.
    static APSCOPE_INLINE void run(const double* r, double unit, double largest, double offset, std::size_t count, double* z, std::int64_t* near) {
        constexpr double integers = 0x1.8p52;  // added and subtracted, it rounds to an integer
        constexpr double doubt = 0x1p-30;      // more than the roundings, some 2^-52 largest
        std::int64_t doubtful = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const double u = r[i] / unit;
            const double above = u < -1.0 ? -1.0 : u, inside = above > 1.0 ? 1.0 : above;
            const double v = inside * largest;
            const double nearest = (((v - offset) + integers) - integers) + offset;
            z[i] = nearest / largest;
            doubtful += std::abs(v - nearest) > 0.5 - doubt ? 1 : 0;
        }
        *near = doubtful;
    }
};

struct AddProducts {
    static APSCOPE_INLINE void run(const double* r, const double* z, std::size_t count, double* along, double* length) {
        for (std::size_t i = 0; i < count; i += sum_lanes) {
#pragma GCC ivdep  // the lanes are arrays of their own
#pragma GCC unroll 1
            for (std::size_t l = 0; l < sum_lanes; ++l) {
                along[l] += r[i + l] * z[i + l];
                length[l] += z[i + l] * z[i + l];
            }
        }
    }
};

}  // namespace

Row uniform_levels(int largest) {
    Row levels;
    for (int i = -largest; i <= largest; ++i) levels.push_back(static_cast<double>(i) / largest);
    return levels;
}

Row offset_levels(int count) {
    Row levels;
    for (int i = 0; i < count; ++i) levels.push_back(static_cast<double>(2 * i + 1 - count) / (count - 1));
    return levels;
}

PointProducts nearest_point_products(std::span<const double> r, std::span<const double> levels, double unit) {
    const double largest = static_cast<double>(levels.size() - 1) / 2.0, offset = largest - std::floor(largest), divisor = unit == 0.0 ? 1.0 : unit;
    double z[group], last[group];
    PointProducts products{0.0, 0.0};
    for (std::size_t block = 0; block < r.size(); block += sum_block) {
        LaneSums<2> sums;
        const std::size_t end = std::min(r.size(), block + sum_block);
        for (std::size_t first = block; first < end; first += group) {
            const std::size_t given = std::min(group, end - first);
            std::size_t count = given;
            const double* part = r.data() + first;
            if (count % sum_lanes != 0) {
                std::copy(part, part + count, last);
                for (; count % sum_lanes != 0; ++count) last[count] = 0.0;
                part = last;
            }
            std::int64_t near = 0;
            simd::run<NearestLevels>(part, divisor, largest, offset, count, static_cast<double*>(z), &near);
            for (std::size_t i = 0; i < count && near > 0; ++i) z[i] = levels[nearest_level(part[i] / divisor, levels)];
            std::fill(z + given, z + count, 0.0);  // what is not there adds nothing
            simd::run<AddProducts>(part, static_cast<const double*>(z), count, static_cast<double*>(sums.lane[0]),
                                   static_cast<double*>(sums.lane[1]));
        }
        products.along += sums.join(0);
        products.length += sums.join(1);
    }
    return products;
}

}  // namespace apscope::detail
