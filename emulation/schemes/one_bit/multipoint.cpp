// multipoint sends a tensor as a sum of a few scaled points of a uniform grid, chosen greedily.
//
//      z = the point nearest to r / a      for every a of a line search
//      s = <r, z> / |z|^2                  the pair (s, z) with the least |r - s z|^2 is sent
//      r = r - s z                         for the next point (points.h)
//
// The grid has the levels i / L, i = -L..L, L = 2^(bits-1) - 1, so that a gradient's many zeros
// stay 0. The paper's grid (zero=false) has all 2^bits levels from -1 to 1, (2 i - c) / c, c =
// 2^bits - 1, i = 0..c, and no 0; with bits = 1 both grids are -1 and 1. The search tries a = amax
// i / search, i = search..1, and takes the first of equally good a. s is an fp32 number, local to a
// worker. With bits = 1, a point is the message of `sign` with the l1 scale. The nearer of two
// levels is chosen in fp64: the upper level if (r / a - lower) / (upper - lower) >= 1/2, where each
// operation is rounded.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "emulation/schemes/codecs/levels.h"
#include "emulation/schemes/codecs/nearest_points.h"
#include "emulation/schemes/codecs/signs.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/shared/points.h"

namespace apscope::detail {

namespace {

// The unit a of the grid and the factor s of a point.
struct Choice {
    double unit = 0.0, scale = 0.0;
};

struct Choices {
    std::vector<Choice> of_worker;

    void fields(Fields& f) {
        Rows rows;
        for (const Choice& c : of_worker) rows.push_back({c.unit, c.scale});
        f.rows("point", rows);
        of_worker.clear();
        for (const Row& row : rows) of_worker.push_back({row.at(0), row.at(1)});
    }
};

Choice best_choice(const RowReader& r, const Row& levels, long search) {
    const double amax = amax_of(r);
    double best = -1.0;
    Choice choice{0.0, 0.0};
    Row units;
    for (long i = search; i >= 1; --i)
        units.push_back(amax / static_cast<double>(search) * static_cast<double>(i));
    const std::vector<PointProducts> products = nearest_point_products(r, levels, units);
    for (std::size_t i = 0; i < units.size(); ++i) {
        const auto [along, length] = products[i];
        const double gain = length == 0.0 ? 0.0 : along * along / length;  // |r|^2 - |r - s z|^2
        if (gain <= best) continue;
        best = gain;
        choice = {units[i], length == 0.0 ? 0.0 : along / length};
    }
    choice.scale = static_cast<float>(
        std::min(choice.scale, static_cast<double>(std::numeric_limits<float>::max())));
    return choice;
}

void encode_point(const RowPiece& p, const Row& levels, Message& m) {
    const std::vector<Choice>& choices = p.theta.of<Choices>().of_worker;
    const auto [unit, scale] = choices.at(place_of(p.worker, choices.size()));
    m.prepare(p.x.size(), true, false);
    encode_nearest_points(p.x, levels, unit, scale, m.codes.data(), m.values.data());
    set_payload(m, level_bits(levels.size()), p.packs());
    m.side_bits = m.tensor_bits = 32;
}

}  // namespace

SchemeDefinition multipoint_definition() {
    return {
        .class_name = "Multipoint",
        .summary = "a sum of a few scaled points of a uniform grid, greedily by least squares",
        .source = "Liu et al., Post-training Quantization with Multiple Points, AAAI 2021 "
                  "(arXiv:2002.09049), on gradients",
        .needs = "gradients",
        .keys = {{"bits", "4", "bits of an element of a point, 1 to 8"},
                 {"points", "2", "maximum number of points per tensor"},
                 {"nmse", "0", "stop at this normalised squared error; 0: never"},
                 {"search", "16", "number of scales that the line search tries"},
                 {"zero", "true",
                  "whether 0 is a level: 2^bits - 1 levels; false: all 2^bits, as in the paper"}},
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            const int bits = static_cast<int>(arguments.integer("bits", 1, 8));
            const long search = arguments.integer("search", 1, 1024);
            const bool zero = arguments.flag("zero") && bits > 1;
            const Row levels = bits == 1 ? Row{}
                               : zero    ? uniform_levels((1 << (bits - 1)) - 1)
                                         : offset_levels(1 << bits);
            SchemeParts point{.grid = "levels:" + std::to_string((1 << bits) - (zero ? 1 : 0))};
            if (bits == 1) {
                point.choice.measure = [](const WorkerRow& r) {
                    return Row{sign_scale(r.x, SignScale::l1, r.x.size)};
                };
                point.encoding.encode = [](const RowPiece& p, Message& m) {
                    encode_signs(m, p.x, p.measured[0], 0, p.packs());
                    m.side_bits = m.tensor_bits = 32;
                };
            } else {
                point.choice.select = [search, levels](const Selection& s) {
                    Parameters theta;
                    for (const RowReader& row : s.rows)
                        theta.extra.of<Choices>().of_worker.push_back(
                            best_choice(row, levels, search));
                    return theta;
                };
                point.encoding.encode = [levels](const RowPiece& p, Message& m) {
                    encode_point(p, levels, m);
                };
            }
            return in_points(point, arguments.integer("points", 1, 64), arguments.fraction("nmse"));
        }};
}

}  // namespace apscope::detail
