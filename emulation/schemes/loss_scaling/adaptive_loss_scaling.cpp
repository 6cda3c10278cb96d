// adaptive_loss_scaling: a power of two l per tensor, computed from the distribution of the
// elements, such that a share T (`target`) of the elements underflows: P(|l0 g| < u_min) = T. u_min
// is the smallest magnitude that does not count as an underflow, H the headroom factor
// (headroom.h).
//
//      g ~ N(0, sigma^2)          l0 = u_min / (sqrt(2) erfinv(T) sigma)
//      ln |g| ~ N(mu, sigma^2)    l0 = exp(ln u_min - mu - sqrt(2) erfinv(2 T - 1) sigma)
//      both                       l  = 2^floor(log2 min(max(l0, 1), upper, u_max / (H amax)))
//
// The parameters follow from the moments of all workers' elements. For the normal distribution,
// sigma^2 = mean g^2, as in ada-loss' rule for layers, which does not subtract the mean. For the
// lognormal distribution, sigma^2 = ln(mean g^2 / mean(abs g)^2) and mu = ln mean(abs g) - sigma^2
// / 2. An all-zero tensor has l = 1. The scale is computed every `interval` steps. This is
// ada-loss' rule for casts; for the scales of layers in backpropagation see
// apscope.studies.activation_scales.
#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "core/fixed_log2.h"
#include "emulation/schemes/codecs/inverse_erf.h"
#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/headroom.h"

namespace apscope::detail {

namespace {

constexpr std::array<std::string_view, 2> distributions{"normal", "lognormal"};

struct AdaptiveRule {
    bool lognormal;
    double u_min, u_max, target, upper;
    Headroom headroom;

    // floor(log2 l0) of a tensor with `count` finite elements that are not all zero.
    int unbounded(double count, const AgreedStatistics& s) const {
        const double magnitude = s.sum_absolute / count, square = s.sum_squares / count;
        if (!lognormal)
            return std::ilogb(u_min / (std::sqrt(2.0) * inverse_erf(target) * std::sqrt(square)));
        // `ratio` is sigma^2 / ln 2, and `sigma` is in binades.
        const double ratio = std::max(fixed_log2(square / (magnitude * magnitude)), 0.0);
        const double sigma = std::sqrt(ratio * 0.69314718055994531) * 1.4426950408889634;
        const double l = fixed_log2(u_min) - fixed_log2(magnitude) + 0.5 * ratio -
                         std::sqrt(2.0) * inverse_erf(2.0 * target - 1.0) * sigma;
        return static_cast<int>(std::floor(l));
    }

    int exponent(const TensorStatistics& of) const {
        const AgreedStatistics& s = of.agreed;
        const double count =
            static_cast<double>(s.elements) * of.workers - static_cast<double>(s.nonfinite);
        if (s.amax == 0.0 || count == 0.0) return 0;
        const int shift = std::clamp(unbounded(count, s), 0, std::ilogb(upper));
        return std::min(shift, largest_shift_within(s.amax, of.workers, headroom, u_max));
    }
};

struct Memory {
    struct Chosen {
        int exponent = 0;
        long age = 0;  // number of steps since the choice; 0: the next step chooses again
        auto members() { return std::tie(exponent, age); }
    };
    std::map<std::string, Chosen> scales;  // the key is the tensor's name

    void fields(Fields& f) { f.each("scale", scales); }
};

// The value of a key: the format's limit of_format for the word `format`, or a positive number.
double limit(const SchemeArguments& arguments, std::string_view key, double of_format) {
    return arguments.text(key) == "format" ? of_format : arguments.scale(key);
}

}  // namespace

SchemeDefinition adaptive_loss_scaling_definition() {
    return {
        .class_name = "AdaptiveLossScaling",
        .summary = "a power of two per tensor that leaves a target share of a normal or "
                   "lognormal distribution below the format",
        .source = "Zhao, Vogel, Ahmed, Adaptive Loss Scaling for Mixed Precision Training "
                  "(arXiv:1910.12385); its code, ada-loss",
        .needs = "gradients (activation gradients and weights for the layers' own scales: "
                 "apscope.studies.activation_scales)",
        .takes_format = true,
        .keys = float_keys(
            {{"distribution", "lognormal", "distribution of the elements: normal or lognormal"},
             {"target", "0.001", "share of elements that may underflow, 1e-6 to 0.5"},
             {"u_min", "format",
              "smallest magnitude that counts as kept: format (its smallest positive value) or "
              "a number"},
             {"u_max", "format", "largest magnitude: format or a number"},
             {"upper", "16",
              "largest scale: 16 for a layer in ada-loss, 1024 for all layers' product"},
             {"interval", "1", "steps between two choices of a tensor's scale"},
             headroom_key()}),
        .note = "lower bound",
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            SchemeParts scheme = float_scheme(arguments, 8);
            const FloatFormat& format = *arguments.format;
            const AdaptiveRule rule{arguments.choice("distribution", distributions) == "lognormal",
                                    limit(arguments, "u_min", format.smallest_positive()),
                                    limit(arguments, "u_max", format.largest()),
                                    arguments.number("target", 1e-6, 0.5),
                                    arguments.scale("upper"),
                                    headroom_of(arguments)};
            if (rule.upper < 1.0)
                throw std::invalid_argument("upper=" + arguments.text("upper") + " is below 1");
            const long interval = arguments.integer("interval", 1, 1'000'000'000);
            SchemeChoice& choice = scheme.choice;
            choice.needs_sums = true;
            scheme.memory.keeps = interval > 1;
            choice.choose = choose_each([rule, interval](const TensorStatistics& s, State& state) {
                if (interval == 1) return power_of_two(rule.exponent(s));
                auto& [exponent, age] = state.of<Memory>().scales[s.tensor];
                if (age == 0) exponent = rule.exponent(s);
                age = age + 1 == interval ? 0 : age + 1;
                return power_of_two(exponent);
            });
            return scheme;
        }};
}

}  // namespace apscope::detail
