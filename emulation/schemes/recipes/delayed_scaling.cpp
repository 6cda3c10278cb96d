// delayed_scaling: a tensor's scale is computed from amax values of earlier steps, so no pass over
// the tensor is needed before the cast.
//
//      c_t     = saturating round(S_t g_t)                 S_0 = 1
//      a_t     = amax of g_t over all workers              if elements are not finite, infinity or
//                                                          the value that `nonfinite` gives
//      A       = max of the last H of a_t, a_(t-1), ...    algo=max
//                a_t                                       algo=most_recent
//      S_(t+1) = fl32(fl32(largest 2^-margin) / A)         at most FLT_MAX; S_t unless 0 < A < inf
//
// So a sudden large gradient saturates at its step and, with algo=max, makes the scale small for
// the next H steps. algo=max ignores a NaN in the history. With zero=skip, a tensor of zeros does
// not change scale and history.
#include <array>
#include <cmath>
#include <limits>

#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/fp32_ratio.h"

namespace apscope::detail {

namespace {

struct Memory {  // the maps have the tensor's name as key
    std::map<std::string, double> scale;
    std::map<std::string, Row> history;

    void fields(Fields& f) {
        f.each("scale", scale);
        f.each("history", history);
    }
};

enum class Nonfinite { infinity, nan, finite };

struct Delayed {
    std::size_t history;
    bool most_recent, skips_zero;
    double largest;       // the format's largest value times 2^-margin
    Nonfinite nonfinite;  // rule for the amax of a tensor with elements that are not finite

    Decision next(const AgreedStatistics& s, Row& past, double& scale) const {
        const Decision decision = scale_of(scale);
        using Limits = std::numeric_limits<double>;
        const double last = s.nonfinite == 0 || nonfinite == Nonfinite::finite ? s.amax
                            : nonfinite == Nonfinite::nan                      ? Limits::quiet_NaN()
                                                                               : Limits::infinity();
        if (last == 0.0 && skips_zero) return decision;
        past.push_back(last);
        if (past.size() > history) past.erase(past.begin());
        double amax = last;
        if (!most_recent) {
            amax = 0.0;
            for (const double a : past) amax = std::fmax(amax, a);  // fmax: a NaN is ignored
        }
        if (std::isfinite(amax) && amax > 0.0) scale = fp32_ratio(largest, amax, 0.0, false);
        return decision;
    }
};

}  // namespace

SchemeDefinition delayed_scaling_definition() {
    return {
        .class_name = "DelayedScaling",
        .summary = "a scale per tensor from the amax of past steps; saturating cast, sums in fp32",
        .source = "NVIDIA Transformer Engine, recipe DelayedScaling and its delayed_scaling.cu",
        .needs = "gradients of consecutive steps",
        .takes_format = true,
        .keys = float_keys(
            {{"history", "1024", "steps whose amax is remembered"},
             {"algo", "max", "amax of the history: max, or most_recent"},
             {"margin", "0", "binades left free below the largest value, 0 to 16"},
             {"zero", "enter",
              "a tensor of zeros: enter, or skip, which does not change history and scale"},
             {"nonfinite", "infinity",
              "a tensor with non-finite elements enters as: infinity, nan, or its finite amax"}},
            {.overflow = "saturate", .accumulate = "fp32"}),
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            constexpr std::array<std::string_view, 2> algos{"max", "most_recent"},
                zeros{"enter", "skip"};
            // The texts have the order of enum Nonfinite.
            constexpr std::array<std::string_view, 3> specials{"infinity", "nan", "finite"};
            SchemeParts scheme = float_scheme(arguments, 32);  // 32 bits for the agreed amax
            const Delayed rule{static_cast<std::size_t>(arguments.integer("history", 1, 1 << 20)),
                               arguments.choice("algo", algos) == "most_recent",
                               arguments.choice("zero", zeros) == "skip",
                               std::ldexp(arguments.format->largest(),
                                          -static_cast<int>(arguments.integer("margin", 0, 16))),
                               arguments.one_of<Nonfinite>("nonfinite", specials)};
            scheme.memory.keeps = true;
            scheme.choice.choose = choose_each([rule](const TensorStatistics& s, State& state) {
                Memory& memory = state.of<Memory>();
                double& scale = memory.scale.try_emplace(s.tensor, 1.0).first->second;
                return rule.next(s.agreed, memory.history[s.tensor], scale);
            });
            return scheme;
        }};
}

}  // namespace apscope::detail
