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

// The levels k / largest, where k is an integer plus an offset of 0 or 1/2.
struct Levels {
    double inverse;                      // 1 / unit
    double largest, offset, reciprocal;  // reciprocal: 1 / largest

    Levels(std::size_t count, double unit)
        : inverse(1.0 / unit), largest(static_cast<double>(count - 1) / 2.0),
          offset(largest - std::floor(largest)), reciprocal(1.0 / largest) {}

    // The real number k that r / unit corresponds to, clamped to [-largest, largest].
    APSCOPE_INLINE double place(double r) const {
        const double u = r * inverse;
        const double above = u < -1.0 ? -1.0 : u, inside = above > 1.0 ? 1.0 : above;
        return inside * largest;
    }
    APSCOPE_INLINE double nearest(double place) const {
        constexpr double integers = 0x1.8p52;  // adding and subtracting this rounds to an integer
        return (((place - offset) + integers) - integers) + offset;
    }
    // True if the place is so near to the middle of two levels that the result depends on the
    // rounding errors in encode_levels().
    static APSCOPE_INLINE bool is_doubtful(double place, double k) {
        constexpr double doubt = 0x1p-30;  // above the rounding errors of about 2^-52 largest
        return std::abs(place - k) > 0.5 - doubt;
    }
    APSCOPE_INLINE double level(double k) const { return quotient(k, largest, reciprocal); }
};

// Adds the products of a group to the sums, unless an element is doubtful. near: receives the
// number of doubtful elements.
struct AddNearest {
    static APSCOPE_INLINE void run(const double* r, const Levels* given, std::size_t count,
                                   double* along, double* length, std::int64_t* near) {
        const Levels at = *given;
        double a[sum_lanes], l[sum_lanes];
        std::int64_t doubtful[sum_lanes] = {};
        for (std::size_t k = 0; k < sum_lanes; ++k) {
            a[k] = along[k];
            l[k] = length[k];
        }
        for (std::size_t i = 0; i < count; i += sum_lanes) {
#pragma GCC ivdep  // the lanes do not overlap the inputs
#pragma GCC unroll 1
            for (std::size_t k = 0; k < sum_lanes; ++k) {
                const double place = at.place(r[i + k]), nearest = at.nearest(place);
                const double z = at.level(nearest);
                a[k] += r[i + k] * z;
                l[k] += z * z;
                doubtful[k] += Levels::is_doubtful(place, nearest) ? 1 : 0;
            }
        }
        std::int64_t doubtful_points = 0;
        for (const auto count_of_lane : doubtful) doubtful_points += count_of_lane;
        *near = doubtful_points;
        for (std::size_t k = 0; k < sum_lanes && doubtful_points == 0; ++k) {
            along[k] = a[k];
            length[k] = l[k];
        }
    }
};

// Computes codes and values of a group, which are valid if no element is doubtful.
struct EncodeNearest {
    static APSCOPE_INLINE void run(const double* r, const Levels* given, double scale,
                                   std::size_t count, double* codes, double* values,
                                   std::int64_t* near) {
        const Levels at = *given;
        std::int64_t doubtful = 0;
#pragma GCC ivdep  // the results do not overlap the inputs
        for (std::size_t i = 0; i < count; ++i) {
            const double place = at.place(r[i]), nearest = at.nearest(place);
            codes[i] = nearest + at.largest;
            values[i] = at.level(nearest) * scale;
            doubtful += Levels::is_doubtful(place, nearest) ? 1 : 0;
        }
        *near = doubtful;
    }
};

struct AddProducts {
    static APSCOPE_INLINE void run(const double* r, const double* z, std::size_t count,
                                   double* along, double* length) {
        for (std::size_t i = 0; i < count; i += sum_lanes) {
#pragma GCC ivdep  // the lanes do not overlap the inputs
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
    for (int i = 0; i < count; ++i)
        levels.push_back(static_cast<double>(2 * i + 1 - count) / (count - 1));
    return levels;
}

std::vector<PointProducts> nearest_point_products(const RowReader& r,
                                                  std::span<const double> levels,
                                                  std::span<const double> units) {
    double z[group], last[group];
    std::vector<PointProducts> products(units.size(), {0.0, 0.0});
    for (std::size_t block = 0; block < r.size; block += sum_block) {
        const std::span<const double> row = r.read(block, std::min(sum_block, r.size - block));
        for (std::size_t u = 0; u < units.size(); ++u) {
            const double unit = units[u] == 0.0 ? 1.0 : units[u];
            const Levels at(levels.size(), unit);
            LaneSums<2> sums;
            for (std::size_t first = 0; first < row.size(); first += group) {
                const std::size_t in_group = std::min(group, row.size() - first),
                                  in_lanes = in_group / sum_lanes * sum_lanes;
                const double* part = row.data() + first;
                std::int64_t near = 1;
                if (in_lanes == in_group && std::isfinite(at.inverse)) {
                    simd::run<AddNearest>(part, &at, in_group, static_cast<double*>(sums.lane[0]),
                                          static_cast<double*>(sums.lane[1]), &near);
                }
                if (near == 0) continue;
                std::size_t count = in_group;
                for (std::size_t i = 0; i < in_group; ++i)
                    z[i] = levels[nearest_level(part[i] / unit, levels)];
                if (in_lanes != in_group) {
                    std::copy(part, part + in_group, last);
                    part = last;
                    for (; count % sum_lanes != 0; ++count)
                        last[count] = z[count] = 0.0;  // the padding adds 0 to the sums
                }
                simd::run<AddProducts>(part, static_cast<const double*>(z), count,
                                       static_cast<double*>(sums.lane[0]),
                                       static_cast<double*>(sums.lane[1]));
            }
            products[u].along += sums.join(0);
            products[u].length += sums.join(1);
        }
    }
    return products;
}

void encode_nearest_points(std::span<const double> r, std::span<const double> levels, double unit,
                           double scale, double* codes, double* values) {
    const double divisor = unit == 0.0 ? 1.0 : unit;
    const Levels at(levels.size(), divisor);
    for (std::size_t first = 0; first < r.size(); first += group) {
        const std::size_t count = std::min(group, r.size() - first);
        std::int64_t near = 1;
        if (std::isfinite(at.inverse))
            simd::run<EncodeNearest>(r.data() + first, &at, scale, count, codes + first,
                                     values + first, &near);
        for (std::size_t i = first; i < first + count && near != 0; ++i) {
            const std::size_t code = nearest_level(r[i] / divisor, levels);
            codes[i] = static_cast<double>(code);
            values[i] = levels[code] * scale;
        }
    }
}

}  // namespace apscope::detail
