// logmax_loss_scaling: OpenSeq2Seq's LogMax. The loss scale follows the distribution of the
// logarithm of the largest gradient, which counts as normal.
//
//      x     = log2(amax over all tensors and workers)       `overflow_log2` if the step overflows
//      mu    = mean of x with the weights of beta1           bias-corrected
//      m, E  = means of x and x^2 with the weights of beta2  bias-corrected
//      sigma = sqrt(max(E - m^2, 0))
//      S     = clip(2^(target - (mu + deviations sigma)), min_scale, max_scale)
//
// A step uses the S of the step before, at first `init`. If an element of a worker's gradient or of
// the reduced gradient is not finite, the step is skipped. In the original, a step of zeros puts
// log2(0) into the means, and S is NaN from then on; here such a step leaves the means as they are.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/fixed_exp2.h"
#include "core/fixed_log2.h"
#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/loss_scale.h"

namespace apscope::detail {

namespace {

// A mean with exponentially decreasing weights.
struct DecayingMean {
    double sum = 0.0, left = 1.0;  // left: what the weights lack to a sum of 1, beta^t

    void add(double x, double beta) {
        sum = beta * sum + (1.0 - beta) * x;
        left *= beta;
    }
    double mean() const { return sum / (1.0 - left); }
};

struct Memory {
    double scale = 1.0;
    DecayingMean fast, slow, square;

    void fields(Fields& f) {
        f.numbers("loss_scale", scale, fast.sum, fast.left, slow.sum, slow.left, square.sum,
                  square.left);
    }
};

struct LogMax {
    double init, beta1, beta2, deviations, target, overflow_log2, min, max;

    double next_scale(Memory& memory, double x) const {
        auto& [scale, fast, slow, square] = memory;
        fast.add(x, beta1);
        slow.add(x, beta2);
        square.add(x * x, beta2);
        const double m = slow.mean(), sigma = std::sqrt(std::max(square.mean() - m * m, 0.0));
        const double log2_scale = target - (fast.mean() + deviations * sigma);
        if (log2_scale <= fixed_log2(min)) return min;
        return log2_scale >= fixed_log2(max) ? max : static_cast<float>(fixed_exp2(log2_scale));
    }

    std::vector<Decision> run(const SelectionInput& input, const FoundInf& found_inf,
                              State& state) const {
        Memory& memory = state.of(Memory{init, {}, {}, {}});
        std::vector<Decision> decisions;
        for (std::size_t step = 0; step < input.steps; ++step) {
            Decision decision = scale_of(memory.scale);
            decision.skipped = found_inf(input, step, memory.scale);
            decisions.insert(decisions.end(), input.tensors, decision);
            double amax = 0.0;
            for (std::size_t tensor = 0; tensor < input.tensors; ++tensor)
                amax = std::max(amax, input.at(step, tensor).amax);
            if (!decision.skipped && amax == 0.0) continue;
            memory.scale = next_scale(memory, decision.skipped ? overflow_log2 : fixed_log2(amax));
        }
        return decisions;
    }
};

}  // namespace

SchemeDefinition logmax_loss_scaling_definition() {
    return {.class_name = "LogMaxLossScaling",
            .summary = "a loss scale from mean and deviation of the largest gradient's logarithm",
            .source = "OpenSeq2Seq, open_seq2seq/optimizers/automatic_loss_scaler.py (LogMax)",
            .needs =
                "gradients of consecutive steps (activation gradients for more than a lower bound)",
            .takes_format = true,
            .keys = float_keys(
                {{"init", "1", "S at the first step"},
                 {"beta1", "0.99", "decay of the mean"},
                 {"beta2", "0.999", "decay of the means for the deviation"},
                 {"deviations", "3.09", "deviations above the mean that S leaves room for"},
                 {"target", "16", "log2 of what S brings the largest gradient to"},
                 {"overflow_log2", "65536", "what an overflow counts as, in place of log2(amax)"},
                 {"min_scale", "1", "the minimum of S"},
                 {"max_scale", "16384", "the maximum of S"}}),
            .note = "lower bound",
            .build = [](const SchemeArguments& arguments) -> SchemeParts {
                SchemeParts scheme = dynamic_loss_scheme(arguments);
                const LogMax rule{initial_loss_scale(arguments),
                                  arguments.fraction("beta1"),
                                  arguments.fraction("beta2"),
                                  arguments.number("deviations", 0.0, 1e6),
                                  arguments.number("target", -126.0, 127.0),
                                  arguments.number("overflow_log2", -1e6, 1e6),
                                  arguments.scale("min_scale"),
                                  arguments.scale("max_scale")};
                if (rule.min > rule.init || rule.max < rule.init) {
                    throw std::invalid_argument(
                        "init=" + arguments.text("init") +
                        " is not between min_scale=" + arguments.text("min_scale") +
                        " and max_scale=" + arguments.text("max_scale"));
                }
                scheme.choice.choose = [rule, found_inf = FoundInf(*scheme.encoding.float_encoder)](
                                           const SelectionInput& input, State& state) {
                    return rule.run(input, found_inf, state);
                };
                return scheme;
            }};
}

}  // namespace apscope::detail
