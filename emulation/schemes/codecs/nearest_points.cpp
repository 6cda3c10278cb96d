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

// What a group adds to the sums, and how many of its elements lie so near to the middle of two levels that the roundings of
// encode_levels decide. Elsewhere the nearest integer to u largest is what counts.
struct AddNearest {
    // Levels are (k + offset) / largest: k whole, offset 0 or 1/2. inverse: of the unit; reciprocal: of largest.
    struct Levels {
        double inverse, largest, offset, reciprocal;
    };
    static APSCOPE_INLINE void run(const double* r, const Levels* given, std::size_t count, double* along, double* length, std::int64_t* near) {
        constexpr double integers = 0x1.8p52;  // added and subtracted, it rounds to an integer
        constexpr double doubt = 0x1p-30;      // more than the roundings, some 2^-52 largest
        const Levels at = *given;
        double a[sum_lanes], l[sum_lanes];
        std::int64_t doubtful[sum_lanes] = {};
        for (std::size_t k = 0; k < sum_lanes; ++k) {
            a[k] = along[k];
            l[k] = length[k];
        }
        for (std::size_t i = 0; i < count; i += sum_lanes) {
#pragma GCC ivdep  // the lanes are arrays of their own
#pragma GCC unroll 1
            for (std::size_t k = 0; k < sum_lanes; ++k) {
                const double u = r[i + k] * at.inverse;
                const double above = u < -1.0 ? -1.0 : u, inside = above > 1.0 ? 1.0 : above;
                const double v = inside * at.largest;
                const double nearest = (((v - at.offset) + integers) - integers) + at.offset;
                const double z = quotient(nearest, at.largest, at.reciprocal);
                a[k] += r[i + k] * z;
                l[k] += z * z;
                doubtful[k] += std::abs(v - nearest) > 0.5 - doubt ? 1 : 0;
            }
        }
        std::int64_t found = 0;
        for (const auto count_of_lane : doubtful) found += count_of_lane;
        *near = found;
        for (std::size_t k = 0; k < sum_lanes && found == 0; ++k) {
            along[k] = a[k];
            length[k] = l[k];
        }
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

std::vector<PointProducts> nearest_point_products(const RowReader& r, std::span<const double> levels, std::span<const double> units) {
    const double largest = static_cast<double>(levels.size() - 1) / 2.0, offset = largest - std::floor(largest);
    double z[group], last[group];
    std::vector<PointProducts> products(units.size(), {0.0, 0.0});
    for (std::size_t block = 0; block < r.size; block += sum_block) {
        const std::span<const double> row = r.read(block, std::min(sum_block, r.size - block));
        for (std::size_t u = 0; u < units.size(); ++u) {
            const double unit = units[u] == 0.0 ? 1.0 : units[u];
            const AddNearest::Levels at{1.0 / unit, largest, offset, 1.0 / largest};
            LaneSums<2> sums;
            for (std::size_t first = 0; first < row.size(); first += group) {
                const std::size_t given = std::min(group, row.size() - first), whole = given / sum_lanes * sum_lanes;
                const double* part = row.data() + first;
                std::int64_t near = 1;
                if (whole == given && std::isfinite(at.inverse)) {
                    simd::run<AddNearest>(part, &at, given, static_cast<double*>(sums.lane[0]), static_cast<double*>(sums.lane[1]), &near);
                }
                if (near == 0) continue;
                std::size_t count = given;
                for (std::size_t i = 0; i < given; ++i) z[i] = levels[nearest_level(part[i] / unit, levels)];
                if (whole != given) {
                    std::copy(part, part + given, last);
                    part = last;
                    for (; count % sum_lanes != 0; ++count) last[count] = z[count] = 0.0;  // what is not there adds nothing
                }
                simd::run<AddProducts>(part, static_cast<const double*>(z), count, static_cast<double*>(sums.lane[0]),
                                       static_cast<double*>(sums.lane[1]));
            }
            products[u].along += sums.join(0);
            products[u].length += sums.join(1);
        }
    }
    return products;
}

}  // namespace apscope::detail
