// multipoint: a tensor as a sum of a few scaled points of a uniform grid, chosen greedily.
//
//      z = the point nearest to r / a,  s = <r, z> / |z|^2      for every a of a line search
//      the pair with the least |r - s z|^2 is sent              the next point is of r - s z (points.h)
//
// The grid has levels i / L, i = -L..L, L = 2^(bits-1) - 1 (bits = 1: -1 and 1). The search tries
// a = amax i / search, i = search..1, and keeps the first of equals. s is an fp32 number, local to a worker. So
// with bits = 1 a point is `sign` with the l1 scale.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/fixed_shape_sum.h"
#include "emulation/codecs/levels.h"
#include "emulation/codecs/signs.h"
#include "emulation/schemes/one_bit.h"
#include "emulation/schemes/points.h"

namespace apscope {

namespace {

double product(std::span<const double> x, std::span<const double> y) {
    double sum = 0.0;
    for (std::size_t first = 0; first < x.size(); first += sum_block) {
        sum += block_sum(std::min(sum_block, x.size() - first), [&](std::size_t i) { return x[first + i] * y[first + i]; });
    }
    return sum;
}

Row uniform_levels(int bits) {
    if (bits == 1) return {-1.0, 1.0};
    const int largest = (1 << (bits - 1)) - 1;
    Row levels;
    for (int i = -largest; i <= largest; ++i) levels.push_back(static_cast<double>(i) / largest);
    return levels;
}

Message best_point(std::span<const double> r, const Row& levels, long search, const RandomStream& none, bool packs) {
    double amax = 0.0, best = -1.0, scale = 0.0;
    for (const double x : r) amax = std::max(amax, std::abs(x));
    Message kept;
    for (long i = search; i >= 1; --i) {
        const double a = amax / static_cast<double>(search) * static_cast<double>(i);
        Message m = encode_levels(r, levels, a, LevelRule::nearest, none, packs);
        for (std::size_t k = 0; k < r.size(); ++k) m.values[k] = levels[static_cast<std::size_t>(m.codes[k])];
        const double along = product(r, m.values), length = product(m.values, m.values);
        const double gain = length == 0.0 ? 0.0 : along * along / length;  // |r|^2 - |r - s z|^2
        if (gain <= best) continue;
        best = gain;
        scale = length == 0.0 ? 0.0 : along / length;
        kept = std::move(m);
    }
    scale = static_cast<float>(std::min(scale, static_cast<double>(std::numeric_limits<float>::max())));
    for (double& z : kept.values) z *= scale;
    return kept;
}

}  // namespace

SchemeDefinition multipoint_definition() {
    return {"multipoint",
            "Multipoint",
            "a sum of a few scaled points of a uniform grid, greedily by least squares",
            "Liu et al., Post-training Quantization with Multiple Points, AAAI 2021 (arXiv:2002.09049), on gradients",
            "gradients",
            false,
            {{"bits", "4", "bits of an element of a point, 1 to 8"},
             {"points", "2", "points a tensor, at most"},
             {"nmse", "0", "stop at this normalised squared error; 0: never"},
             {"search", "16", "scales that the line search tries"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                const int bits = static_cast<int>(arguments.integer("bits", 1, 8));
                const long search = arguments.integer("search", 1, 1024);
                TensorScheme t;
                t.grid = "levels:" + std::to_string(bits == 1 ? 2 : (1 << bits) - 1);
                t.encode = [bits, search, levels = uniform_levels(bits)](const TensorStep& step, const State&,
                                                                         std::span<const double> r, int worker) {
                    Message m = bits == 1 ? encode_signs(r, sign_scale(r, SignScale::l1, r.size()), r.size(), step.packs)
                                          : best_point(r, levels, search, step.stream(worker, 32), step.packs);
                    m.side_bits = 32;
                    return m;
                };
                scheme.tensor = std::make_shared<const TensorScheme>(
                    in_points(std::move(t), arguments.integer("points", 1, 64), fraction(arguments, "nmse")));
            }};
}

}  // namespace apscope
