// deepspeed_loss_scaling: the DynamicLossScaler of DeepSpeed. S starts at `init`; `left` overflows are
// forgiven at `hysteresis`; i counts steps from 0, `last` is the step of the last overflow, -1 at first.
//
//      overflow:  the step is dropped; if left = 1: S = max(S / factor, min_scale), else left -= 1; last = i
//      none:      (consecutive_hysteresis: left = hysteresis;) if the growth test holds: S = factor S,
//                 left = hysteresis
//
// The growth test: version=2025, since June of that year, and the fused optimizers' since 2020:
// i - last - 1 is a positive multiple of `window`; version=2020, the class' until then: i - last is one.
// An overflow at S = min_scale raises an error there: with at_minimum=stop every step from that one on
// is dropped, with keep (raise_error_at_min_scale=False) training goes on.
// S is a real number there, fp64, and multiplies the loss in fp32: fl32(S) is in force.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "emulation/schemes/loss_scaling/loss_scale.h"
#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

namespace {

constexpr std::array<std::string_view, 2> versions{"2025", "2020"}, at_minimum_choices{"stop", "keep"}, booleans{"false", "true"};

struct DeepSpeedScaler {
    double init, factor, least;
    long window, hysteresis;
    bool since_2025, stops, consecutive;

    bool grows(long steps_since) const {
        return since_2025 ? steps_since > 1 && (steps_since - 1) % window == 0 : steps_since % window == 0;
    }

    std::vector<Decision> run(const SelectionInput& input, const OverflowTest& overflows, State& state) const {
        const Row start{init, static_cast<double>(hysteresis), 0.0, -1.0, 0.0};  // S, left, i, last, stopped
        Row& remembered = state.try_emplace("loss_scale", start).first->second;
        double scale = remembered.at(0);
        long left = static_cast<long>(remembered.at(1)), i = static_cast<long>(remembered.at(2));
        long last = static_cast<long>(remembered.at(3));
        bool stopped = remembered.at(4) != 0.0;
        std::vector<Decision> decisions;
        for (std::size_t step = 0; step < input.steps; ++step) {
            const double in_force = std::min(scale, static_cast<double>(std::numeric_limits<float>::max()));
            const bool found = scale > in_force || overflows(input, step, static_cast<float>(in_force));
            if (found && scale == least && left == 1 && stops) stopped = true;
            Decision decision = scale_of(static_cast<float>(in_force));
            decision.skipped = found || stopped;
            decisions.insert(decisions.end(), input.tensors, decision);
            if (stopped) continue;
            if (found) {
                if (left == 1) scale = std::max(scale / factor, least);
                else --left;
                last = i;
            } else {
                const bool grow = grows(i - last);
                if (consecutive || grow) left = hysteresis;
                if (grow) scale *= factor;
            }
            ++i;
        }
        remembered = {scale, static_cast<double>(left), static_cast<double>(i), static_cast<double>(last), stopped ? 1.0 : 0.0};
        return decisions;
    }
};

}  // namespace

SchemeDefinition deepspeed_loss_scaling_definition() {
    return {"deepspeed_loss_scaling",
            "DeepSpeedLossScaling",
            "DeepSpeed's dynamic loss scale: overflows are forgiven `hysteresis` - 1 times, growth is counted from the last",
            "DeepSpeed, deepspeed/runtime/fp16/loss_scaler.py",
            "gradients of consecutive steps (activation gradients for more than a lower bound)",
            true,
            float_keys({initial_loss_scale_key(),
                        {"factor", "2", "by which S grows, and falls"},
                        {"window", "1000", "steps without overflow before S grows"},
                        {"hysteresis", "2", "the overflow that lowers S, counted since S last grew"},
                        {"consecutive_hysteresis", "false", "whether every step without overflow starts that count anew"},
                        {"min_scale", "1", "the least S"},
                        {"at_minimum", "stop", "an overflow at the least S: stop drops all steps from there on, keep that one"},
                        {"version", "2025", "growth test: 2025, since June of that year, or 2020, before"}}),
            [](const SchemeArguments& arguments, Scheme& scheme) {
                build_float(arguments, scheme);
                scheme.note = "lower bound";
                scheme.keeps_state = true;
                const DeepSpeedScaler scaler{initial_loss_scale(arguments),
                                             arguments.real("factor"),
                                             arguments.real("min_scale"),
                                             arguments.integer("window", 1, 1'000'000'000),
                                             arguments.integer("hysteresis", 1, 1'000'000'000),
                                             arguments.choice("version", versions) == "2025",
                                             arguments.choice("at_minimum", at_minimum_choices) == "stop",
                                             arguments.choice("consecutive_hysteresis", booleans) == "true"};
                if (scaler.factor <= 1.0) throw std::invalid_argument("factor=" + arguments.text("factor") + " is not above 1");
                if (scaler.least < 0x1p-126 || scaler.least > scaler.init) {
                    throw std::invalid_argument("min_scale=" + arguments.text("min_scale") + " is not between 2^-126 and init");
                }
                const OverflowTest overflows(std::get<FloatGrid>(scheme.grid));
                scheme.select = [scaler, overflows](const SelectionInput& input, State& state) { return scaler.run(input, overflows, state); };
            }};
}

}  // namespace apscope::detail
