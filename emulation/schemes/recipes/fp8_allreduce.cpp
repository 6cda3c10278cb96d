// fp8_allreduce: gradients are added in the format of the messages, with one scale for all workers.
//
//      a   = amax over all workers and elements            infinite if any element is not finite
//      S   = fl32(2^floor(log2(largest / a)) / sqrt(W))    the last step's S (at first 1) if a is 0
//                                                          or infinite
//      c_w = saturating round(S g_w)
//      y   = (sum of c_w) / S                              summed in the format, with saturation
//
// The room sqrt(W) suffices for gradients that are independent between workers, and is too little
// for equal gradients. The exponent floor(log2(largest / a)) is computed exactly and is at most
// 127. The key `headroom` can replace sqrt(W) by W or 1.
//
// no_amax=msamp is what MS-AMP's code does if a is 0 or infinite, in fp32:
//
//      S = S / sqrt(W)            if a is 0
//      S = (1 / S) / sqrt(W)      if a is infinite
//
// agree=scale is MS-AMP's Megatron optimizer: worker w rounds its gradient with the S_w of its own
// amax, and rounds the result once more with S = min over w of S_w, unless S_w = S.
//
// auto_scaling=t is FP8-LM's automatic scaling: mu S takes the place of S, where mu starts at 1.
// After a step in which more than the share t of all workers' elements is rounded to the largest
// magnitude, mu is halved, after any other it is multiplied by 2^(1/1000).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "core/fixed_shape_sum.h"
#include "emulation/arithmetic/row_cast.h"
#include "emulation/schemes/codecs/float_row.h"
#include "emulation/schemes/codecs/row_use.h"
#include "emulation/schemes/codecs/statistics.h"
#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/headroom.h"

namespace apscope::detail {

namespace {

struct Memory {
    std::map<std::string, double> scale, mu;  // the key is the tensor's name

    void fields(Fields& f) {
        f.each("scale", scale);
        f.each("mu", mu);
    }
};

struct WorkerScales {
    Row scales;  // the scale of each worker's own amax; empty if the workers agree on the amax

    void fields(Fields& f) { f.row("worker_scales", scales); }
};

double room(int workers, Headroom headroom) {
    if (headroom == Headroom::one) return 1.0;
    return headroom == Headroom::workers ? 1.0 / workers
                                         : 1.0 / std::sqrt(static_cast<double>(workers));
}

// The largest finite magnitude of some elements, and whether all elements are finite.
struct Amax {
    double finite = 0.0;
    bool infinite = false;

    static Amax of(const RowReader& row) {
        Amax a;
        for_runs(row, std::max<std::size_t>(row.size, 1),
                 [&](std::size_t, std::span<const double> part) {
                     for (const double x : part) {
                         if (std::isfinite(x)) a.finite = std::max(a.finite, std::abs(x));
                         else a.infinite = true;
                     }
                 });
        a.finite = fp32_bound(a.finite);
        return a;
    }
    void merge(const Amax& other) {
        finite = std::max(finite, other.finite);
        infinite = infinite || other.infinite;
    }
};

struct ScaleRule {
    Headroom headroom;
    double largest;
    bool msamp;

    // The scale for this amax; `last` is the scale of the step before.
    double scale(const Amax& a, double last, int workers) const {
        const double by = room(workers, headroom);
        if (a.finite > 0.0 && !a.infinite) {
            const int exponent =
                std::min(largest_shift_within(a.finite, 1, Headroom::one, largest), 127);
            return static_cast<float>(std::ldexp(by, exponent));
        }
        if (!msamp) return last;
        const float before = static_cast<float>(last), kept = a.infinite ? 1.0f / before : before;
        return bounded(kept * static_cast<float>(by));
    }
    // Scales stay within the normal fp32 numbers.
    static double bounded(float scale) { return std::clamp(scale, 0x1p-126f, 0x1p127f); }
};

constexpr double thousandth_of_a_doubling = 1.0006933874625807;  // 2^(1/1000)

struct AutoScaling {
    double share;  // 0: none
    RowCast cast;

    double times(double mu, double scale) const {
        return share == 0.0 ? scale : ScaleRule::bounded(static_cast<float>(mu * scale));
    }
    // The factor on mu after a step with this scale.
    double growth(std::span<const RowReader> rows, double scale) const {
        const double largest = cast.format().largest();
        double saturated = 0.0, elements = 0.0, codes[sum_block];
        for (const RowReader& row : rows) {
            elements += static_cast<double>(row.size);
            for_runs(row, std::max<std::size_t>(row.size, 1),
                     [&](std::size_t, std::span<const double> part) {
                         cast.round(part.data(), scale, codes, part.size(), {}, 0);
                         for (std::size_t i = 0; i < part.size(); ++i)
                             saturated += std::abs(codes[i]) >= largest ? 1.0 : 0.0;
                     });
        }
        return saturated > share * elements ? 0.5 : thousandth_of_a_doubling;
    }
};

// Rounds with the worker's own scale, then the result with the common scale.
void encode_twice(const RowPiece& p, const FloatGrid& grid, Message& m) {
    const Row& own_scales = p.theta.of<WorkerScales>().scales;  // of two phases: the worker's alone
    const double own = own_scales.at(own_scales.size() == 1 ? 0 : p.worker),
                 scale = p.theta.common_scale();
    const std::size_t n = p.x.size();
    thread_local Row codes, rounded, scales;
    codes.resize(n);
    rounded.assign(p.x.begin(), p.x.end());
    if (own != scale) {
        const RowCast cast(grid.format, grid.projection);
        cast.round(p.x.data(), own, codes.data(), n, {}, 0);
        for (std::size_t i = 0; i < n; ++i) rounded[i] = codes[i] / own;
    }
    encode_float_row({p.step, p.theta, p.measured, p.place, rounded, p.worker}, scale, grid, m);
    m.side_bits = m.tensor_bits = 32;
    // The counts are those of the gradient and not of what the first rounding made of it.
    const GridLimits limits =
        limits_of(grid.format, make_cast<double>(grid.format, grid.projection));
    scales.assign(n, scale);
    m.saturated.clear();
    GridUse use;
    add_row(use, p.x, m.codes.data(), m.values.data(), scales.data(), limits, m.saturated, 0, n);
    m.grid_use = use;
}

SchemeParts parts_of(const SchemeArguments& arguments) {
    constexpr std::array<std::string_view, 2> rules{"keep", "msamp"}, agreements{"amax", "scale"};
    SchemeParts scheme = float_scheme(arguments, 32);  // 32 bits for the agreed amax or scale
    const FloatGrid& grid = scheme.encoding.float_encoder->grid;
    const ScaleRule rule{headroom_of(arguments), arguments.format->largest(),
                         arguments.choice("no_amax", rules) == "msamp"};
    const bool by_scale = arguments.choice("agree", agreements) == "scale";
    const double share = arguments.fraction("auto_scaling");
    scheme.memory.keeps = true;
    if (!by_scale && share == 0.0) {
        scheme.choice.choose = choose_each([rule](const TensorStatistics& s, State& state) {
            double& last = state.of<Memory>().scale.try_emplace(s.tensor, 1.0).first->second;
            last = rule.scale({s.agreed.amax, s.agreed.nonfinite > 0}, last, s.workers);
            return scale_of(last);
        });
        return scheme;
    }
    if (is_stochastic(grid)) {
        throw std::invalid_argument("rounding=" + arguments.text("rounding") +
                                    " is stochastic; agree=scale and auto_scaling need a rounding "
                                    "without draws, such as ties_to_even");
    }
    if (by_scale && grid.division != Division{}) {
        throw std::invalid_argument("divide=" + arguments.text("divide") +
                                    " is unknown where numbers are rounded twice, as with "
                                    "agree=scale; use divide=after");
    }
    const AutoScaling scaling{share, RowCast(grid.format, grid.projection)};
    scheme.encoding.sees_special = true;
    scheme.choice.select = [rule, by_scale, scaling](const Selection& s) {
        const int workers = s.step.workers;
        Memory& memory = s.state.of<Memory>();
        double& last = memory.scale.try_emplace(s.step.tensor, 1.0).first->second;
        Parameters theta;
        Row& own = theta.extra.of<WorkerScales>().scales;
        Amax all;
        for (const RowReader& row : s.rows) {
            const Amax amax = Amax::of(row);
            all.merge(amax);
            if (by_scale) own.push_back(rule.scale(amax, last, workers));
        }
        last = by_scale ? *std::ranges::min_element(own) : rule.scale(all, last, workers);
        double constant = 1.0;  // mu without auto_scaling, which is not kept
        double& mu = scaling.share == 0.0 ? constant
                                          : memory.mu.try_emplace(s.step.tensor, 1.0).first->second;
        const Decision d = scale_of(scaling.times(mu, last));
        theta.scale = d.scale;
        theta.scale_exponent = d.exponent;
        for (double& scale : own) scale = scaling.times(mu, scale);
        if (scaling.share != 0.0) mu *= scaling.growth(s.rows, d.scale);
        return theta;
    };
    if (by_scale)
        scheme.encoding.encode = [grid](const RowPiece& p, Message& m) {
            encode_twice(p, grid, m);
        };
    return scheme;
}

}  // namespace

SchemeDefinition fp8_allreduce_definition() {
    return {
        .class_name = "FP8AllReduce",
        .summary = "a scale per tensor with room for sqrt(W), saturating, summed in the format",
        .source =
            "Peng et al., FP8-LM (arXiv:2310.18313); its code, MS-AMP (msamp/nn/distributed.py)",
        .needs = "gradients",
        .takes_format = true,
        .keys = float_keys(
            {headroom_key("sqrt_workers", "room left for the sum: sqrt_workers, workers or one"),
             {"no_amax", "keep",
              "S where amax is 0 or infinite: keep, that of the step before; msamp, as MS-AMP's "
              "code makes it"},
             {"agree", "amax",
              "what the workers agree on: the largest amax, or the least of their scales (scale), "
              "with which they round once more"},
             {"auto_scaling", "0",
              "the share of elements at the largest magnitude above which FP8-LM's factor mu on S "
              "is halved (1e-05 or 0.001; below it grows); 0: no factor"}},
            {.overflow = "saturate"}),
        .build = parts_of};
}

}  // namespace apscope::detail
