// deepspeed_loss_scaling: the DynamicLossScaler of DeepSpeed. S starts at `init`. `left` is the
// number of overflows until S falls and starts at `hysteresis`; i is the number of the step, from
// 0; `last` is the i of the last overflow and starts at -1.
//
//      overflow    the step is dropped
//                  if left = 1:  S = max(S / factor, min_scale)
//                  else:         left = left - 1
//                  last = i
//      otherwise   if the growth test holds:                 S = factor S
//                  if so, or with consecutive_hysteresis:    left = hysteresis
//
// The growth test depends on `version`. With version=2025 (the class since June 2025, the fused
// optimizers since 2020), i - last - 1 must be a positive multiple of `window`. With version=2020
// (the class before June 2025), i - last must be a multiple of `window`. If an overflow would lower
// S (left = 1) when S is already min_scale, DeepSpeed raises an error, for which at_minimum=stop
// drops this step and every later one; with at_minimum=keep (raise_error_at_min_scale=False)
// training goes on. DeepSpeed stores S in fp64 and multiplies the loss in fp32, so a step uses the
// scale fl32(S).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "emulation/schemes/shared/float_scheme.h"
#include "emulation/schemes/shared/loss_scale.h"

namespace apscope::detail {

namespace {

constexpr std::array<std::string_view, 2> versions{"2025", "2020"},
    at_minimum_choices{"stop", "keep"};

struct Memory {
    double scale = 1.0;
    long left = 0;  // number of overflows until the scale falls
    long i = 0,     // number of this step
        last = -1;  // number of the step of the last overflow
    bool stopped = false;

    void fields(Fields& f) { f.numbers("loss_scale", scale, left, i, last, stopped); }
};

struct DeepSpeedScaler {
    double init, factor, min;
    long window, hysteresis;
    bool since_2025, stops, consecutive;

    bool grows(long steps_since) const {
        return since_2025 ? steps_since > 1 && (steps_since - 1) % window == 0
                          : steps_since % window == 0;
    }

    std::vector<Decision> run(const SelectionInput& input, const FoundInf& found_inf,
                              State& state) const {
        auto& [scale, left, i, last, stopped] = state.of(Memory{init, hysteresis});
        std::vector<Decision> decisions;
        for (std::size_t step = 0; step < input.steps; ++step) {
            const double in_force =
                std::min(scale, static_cast<double>(std::numeric_limits<float>::max()));
            const bool overflow =
                scale > in_force || found_inf(input, step, static_cast<float>(in_force));
            if (overflow && scale == min && left == 1 && stops) stopped = true;
            Decision decision = scale_of(static_cast<float>(in_force));
            decision.skipped = overflow || stopped;
            decisions.insert(decisions.end(), input.tensors, decision);
            if (stopped) continue;
            if (overflow) {
                if (left == 1) scale = std::max(scale / factor, min);
                else --left;
                last = i;
            } else {
                const bool grow = grows(i - last);
                if (consecutive || grow) left = hysteresis;
                if (grow) scale *= factor;
            }
            ++i;
        }
        return decisions;
    }
};

}  // namespace

SchemeDefinition deepspeed_loss_scaling_definition() {
    return {
        .class_name = "DeepSpeedLossScaling",
        .summary = "DeepSpeed's dynamic loss scale: `hysteresis` - 1 overflows do not lower it, "
                   "and growth is counted from the last one",
        .source = "DeepSpeed, deepspeed/runtime/fp16/loss_scaler.py",
        .needs =
            "gradients of consecutive steps (activation gradients for more than a lower bound)",
        .takes_format = true,
        .keys = float_keys(
            {initial_loss_scale_key(),
             {"factor", "2", "by which S grows, and falls"},
             {"window", "1000", "steps without overflow before S grows"},
             {"hysteresis", "2", "the overflow that lowers S, counted since S last grew"},
             {"consecutive_hysteresis", "false",
              "whether every step without overflow starts that count anew"},
             {"min_scale", "1", "the minimum of S"},
             {"at_minimum", "stop",
              "an overflow at the minimum of S: stop drops all later steps, keep only that one"},
             {"version", "2025", "growth test: 2025, since June of that year, or 2020, before"}}),
        .note = "lower bound",
        .build = [](const SchemeArguments& arguments) -> SchemeParts {
            SchemeParts scheme = dynamic_loss_scheme(arguments);
            const DeepSpeedScaler scaler{initial_loss_scale(arguments),
                                         arguments.scale("factor"),
                                         arguments.scale("min_scale"),
                                         arguments.integer("window", 1, 1'000'000'000),
                                         arguments.integer("hysteresis", 1, 1'000'000'000),
                                         arguments.choice("version", versions) == "2025",
                                         arguments.choice("at_minimum", at_minimum_choices) ==
                                             "stop",
                                         arguments.flag("consecutive_hysteresis")};
            if (scaler.factor <= 1.0)
                throw std::invalid_argument("factor=" + arguments.text("factor") +
                                            " is not above 1");
            if (scaler.min < 0x1p-126 || scaler.min > scaler.init) {
                throw std::invalid_argument("min_scale=" + arguments.text("min_scale") +
                                            " is not between 2^-126 and init");
            }
            scheme.choice.choose = [scaler, found_inf = FoundInf(*scheme.encoding.float_encoder)](
                                       const SelectionInput& input, State& state) {
                return scaler.run(input, found_inf, state);
            };
            return scheme;
        }};
}

}  // namespace apscope::detail
