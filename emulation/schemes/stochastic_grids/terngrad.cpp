// terngrad: ternary codes with one scale for all workers, so that the network can add codes.
//
//      c_w  = clamp(g_w, -t_w, t_w)        t_w = clip sigma_w; infinite where clip or sigma_w is 0
//      s    = max over w of max |c_w|      agreed by MAX, an fp32 number
//      code = sign(c_w) with probability |c_w| / s, else 0
//      y    = s (sum of codes)
//
// s is at most the largest fp32 number. sigma_w is the standard deviation of worker w's elements. A
// code takes 2 bits in a message; the sum of W codes lies in -W..W and takes ceil(log2(2W + 1))
// bits. With the exact probability |c_w| / s, a message has the variance s |c_w|_1 - |c_w|_2^2 and
// the bias c_w - g_w. The probability is a multiple of 2^-N, for random words of N bits, rounded
// down for c_w > 0 and up for c_w < 0 (codecs/levels.h); variance and bias in results are those of
// the rounded probability.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "emulation/schemes/codecs/levels.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

constexpr double largest_fp32 = std::numeric_limits<float>::max();

struct Clipped {
    Row limits;  // t_w of each worker; infinity: no clipping

    void fields(Fields& f) { f.row("limits", limits); }
};

// The limit t_w of a worker's magnitudes; infinity for no clipping.
double limit_of(const RowReader& x, double clip) {
    const auto n = static_cast<double>(x.size);
    if (clip == 0.0 || x.size == 0) return std::numeric_limits<double>::infinity();
    const double mean = fixed_sum_of(x, [](double v) { return v; }) / n;
    const double sigma =
        std::sqrt(fixed_sum_of(x, [mean](double v) { return (v - mean) * (v - mean); }) / n);
    return sigma == 0.0 ? std::numeric_limits<double>::infinity() : clip * sigma;
}

Parameters shared_scale(std::span<const RowReader> rows, double clip) {
    Parameters theta;
    Row& limits = theta.extra.of<Clipped>().limits;
    double scale = 0.0;
    for (const RowReader& x : rows) {
        const double limit = limit_of(x, clip);
        limits.push_back(limit);
        scale = std::max(scale, std::min(amax_of(x), limit));
    }
    theta.scale = static_cast<float>(std::min(scale, largest_fp32));
    return theta;
}

void encode_ternary(const RowPiece& p, int random_bits, Message& m) {
    static const LevelTable levels({-1.0, 0.0, 1.0});
    const double limit = p.theta.of<Clipped>().limits.at(p.worker);
    thread_local Row clipped;
    clipped.resize(p.x.size());
    for (std::size_t i = 0; i < p.x.size(); ++i) clipped[i] = std::clamp(p.x[i], -limit, limit);
    encode_levels(m, clipped, levels, p.theta.common_scale(), LevelRule::stochastic,
                  p.stream(random_bits), p.packs(), p.place.first);
    for (std::size_t i = 0; i < p.x.size(); ++i) {
        m.codes[i] -= 1.0;
        m.bias[i] += clipped[i] - p.x[i];
    }
    m.side_bits = m.tensor_bits = 32;
}

SchemeParts parts_of(const SchemeArguments& arguments) {
    const int random_bits = static_cast<int>(arguments.integer("random_bits", 1, 53));
    return {.grid = "levels:3",
            .topology = std::string(reductions::code_sum),
            .transport = {.code_bits = 2,
                          .sum_bits = [](int workers) { return bits_of_sum(workers, 2); },
                          .agreed_bits = all_side_bits},
            .choice = {.select = [clip = arguments.number("clip", 0.0)](
                                     const Selection& s) { return shared_scale(s.rows, clip); }},
            .encoding = {.encode = [random_bits](const RowPiece& p,
                                                 Message& m) { encode_ternary(p, random_bits, m); },
                         .reduce =
                             [](const SentPieces& s, Row& sum) {
                                 sum_of_codes(s.messages, sum);
                                 for (double& y : sum) y *= s.theta.common_scale();
                             },
                         .draws = true,
                         .is_exact_sum = true}};
}

}  // namespace

SchemeDefinition terngrad_definition() {
    return {.class_name = "TernGrad",
            .summary = "signs or zeros times the workers' largest magnitude, after clipping; codes "
                       "are added in the network",
            .source = "Wen et al., TernGrad, NIPS 2017 (arXiv:1705.07878)",
            .needs = "gradients",
            .keys = {{"clip", "2.5", "standard deviations beyond which a worker clips, 0: none"},
                     {"random_bits", "32", "random bits of stochastic rounding, 1 to 53"},
                     correlated_key},
            .build = parts_of};
}

}  // namespace apscope::detail
