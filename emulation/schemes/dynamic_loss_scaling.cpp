// dynamic_loss_scaling: the state machine of torch.amp.GradScaler.
//
// S starts at `init`. A step in which some worker's encoded value overflows or is not finite is
// skipped, and S becomes fl32(S backoff). After growth_interval steps without one, S becomes
// fl32(S growth) if that is finite. The scale in force at a step is the one before its update.
#include <cmath>
#include <stdexcept>

#include "core/rounding.h"
#include "emulation/scheme.h"
#include "emulation/schemes/float_scheme.h"

namespace apscope {

namespace {

// Would the largest value of this tensor overflow under scale S? Rounding is monotone, so amax
// answers for all; stochastic rounding counts as overflowing where it could.
bool overflows(double amax, double scale, const FloatGrid& grid, const Cast<double>& cast) {
    const double scaled = amax * scale;
    if (clamps(grid.projection.overflow)) return false;
    if (is_stochastic(grid.projection.rounding)) return scaled > grid.format.largest();
    return !std::isfinite(round_one<double>(scaled, cast, grid.projection.rounding, 0)) ||
           !std::isfinite(round_one<double>(-scaled, cast, grid.projection.rounding, 0));
}

std::vector<Decision> run(const SelectionInput& input, const FloatGrid& grid, double init, double growth, double backoff,
                          long interval, State& state) {
    const Cast<double> cast = make_cast<double>(grid.format, grid.projection);
    std::vector<Decision> decisions;
    Row& remembered = state.try_emplace("loss_scale", Row{init, 0.0}).first->second;  // S and the tracker
    auto scale = static_cast<float>(remembered.at(0));
    auto tracker = static_cast<long>(remembered.at(1));
    for (std::size_t step = 0; step < input.steps; ++step) {
        bool found_inf = scale == 0.0f;
        for (std::size_t tensor = 0; tensor < input.tensors; ++tensor) {
            const AgreedStatistics& s = input.at(step, tensor);
            found_inf = found_inf || s.nonfinite > 0 || overflows(s.amax, scale, grid, cast);
        }
        Decision decision = scale_of(scale);
        decision.skipped = found_inf;
        decisions.insert(decisions.end(), input.tensors, decision);
        if (found_inf) {
            scale = static_cast<float>(scale * backoff);
            tracker = 0;
        } else if (++tracker == interval) {
            const float grown = static_cast<float>(scale * growth);
            if (std::isfinite(grown)) scale = grown;
            tracker = 0;
        }
    }
    remembered = {scale, static_cast<double>(tracker)};
    return decisions;
}

}  // namespace

SchemeDefinition dynamic_loss_scaling_definition() {
    return {"dynamic_loss_scaling",
            "DynamicLossScaling",
            "a loss scale that halves when a step overflows (the step is dropped) and grows after quiet ones",
            "torch.amp.GradScaler (PyTorch torch/amp/grad_scaler.py)",
            "gradients of consecutive steps (activation gradients for more than a lower bound)",
            true,
            float_keys({{"init", "65536", "S at the first step: a positive fp32 number"},
                        {"growth", "2", "factor after growth_interval steps without overflow"},
                        {"backoff", "0.5", "factor after an overflow"},
                        {"growth_interval", "2000", "steps without overflow before S grows"}}),
            [](const SchemeArguments& arguments, Scheme& scheme) {
                build_float(arguments, scheme);
                scheme.note = "lower bound";
                const FloatGrid grid = std::get<FloatGrid>(scheme.grid);
                const double init = arguments.real("init"), growth = arguments.real("growth"), backoff = arguments.real("backoff");
                // torch's own conditions.
                if (init < 0x1p-126 || init > 0x1.fffffep127) {
                    throw std::invalid_argument("init=" + arguments.text("init") + " is not a positive fp32 number (such as 65536)");
                }
                if (growth <= 1.0) throw std::invalid_argument("growth=" + arguments.text("growth") + " is not above 1");
                if (backoff >= 1.0) throw std::invalid_argument("backoff=" + arguments.text("backoff") + " is not below 1");
                const long interval = arguments.integer("growth_interval", 1, 1'000'000'000);
                scheme.keeps_state = true;
                scheme.select = [=](const SelectionInput& input, State& state) {
                    return run(input, grid, init, growth, backoff, interval, state);
                };
            }};
}

}  // namespace apscope
