#include "emulation/schemes/shared/loss_scale.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "emulation/schemes/rounding_bound.h"
#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

namespace {

struct Memory {
    float scale = 1.0f;
    long quiet = 0;  // steps without overflow since the scale last changed

    void fields(Fields& f) { f.numbers("loss_scale", scale, quiet); }
};

struct GradScaler {
    double init, growth, backoff;
    long interval;
    MinimumSchedule minimum;
    LossScaleBounds bounds;

    float min(std::int64_t step) const {
        const auto next = minimum.upper_bound(step);
        return next == minimum.begin() ? 0.0f : static_cast<float>(std::prev(next)->second);
    }
    std::vector<Decision> run(const SelectionInput& input, const FoundInf& found_inf,
                              State& state) const;
};

std::vector<Decision> GradScaler::run(const SelectionInput& input, const FoundInf& found_inf,
                                      State& state) const {
    std::vector<Decision> decisions;
    auto& [scale, quiet] = state.of(Memory{static_cast<float>(init), 0});
    for (std::size_t step = 0; step < input.steps; ++step) {
        if (!minimum.empty()) scale = std::max(scale, min(input.step_numbers.at(step)));
        Decision decision = scale_of(scale);
        decision.skipped = found_inf(input, step, scale);
        decisions.insert(decisions.end(), input.tensors, decision);
        if (decision.skipped) {
            scale = static_cast<float>(std::max(scale * backoff, bounds.min));
            quiet = 0;
        } else if (++quiet == interval) {
            const float grown = static_cast<float>(scale * growth);
            if (std::isfinite(grown)) scale = std::min(grown, static_cast<float>(bounds.max));
            quiet = 0;
        }
    }
    return decisions;
}

}  // namespace

// A message is at most S |x| rounded up; a sum is at most the sum of such messages with every
// partial sum rounded up.
bool FoundInf::could_overflow(const AgreedStatistics& s, double scale, int workers,
                              const Topology& topology) const {
    const FloatFormat& grid = encoder_.grid.format;
    const Additions by = encoder_.reduction.additions(topology);
    const RoundingBound wire(grid), hops(by);
    // A format without a sign has no codes for negative numbers.
    if (!grid.is_signed || !by.narrow.format.is_signed) return true;
    if (encoder_.grid.division != Division{}) return true;  // no bound is known for two roundings
    if (wire.rounded(scale * s.amax) > grid.largest()) return true;
    if (topology.kind == Topology::Kind::exact || encoder_.reduction.exact) return false;
    if (topology.kahan) return true;  // the bound below ignores the compensation
    const double messages = wire.growth * scale * s.largest_sum + workers * wire.least;
    // 2^-40 is a margin for the rounding of the bound itself.
    return hops.summed(messages, workers) * (1.0 + 0x1p-40) > by.largest();
}

bool FoundInf::operator()(const SelectionInput& input, std::size_t step, double scale) const {
    std::vector<std::size_t> close;  // the tensors whose sums could overflow
    for (std::size_t tensor = 0; tensor < input.tensors; ++tensor) {
        if (!input.is_assigned(step, tensor)) continue;
        const AgreedStatistics& s = input.at(step, tensor);
        if (s.nonfinite > 0) return true;
        if (could_overflow(s, scale, input.workers, input.ahead->topology()))
            close.push_back(tensor);
    }
    if (scale == 0.0 || close.empty()) return false;
    if (clamps(encoder_.grid.projection.overflow) &&
        encoder_.reduction.additions(input.ahead->topology()).clamps())
        return false;
    return !input.ahead->sums_are_finite(step, close, encoder_, scale_of(scale));
}

std::vector<SchemeKey> grad_scaler_keys() {
    return {initial_loss_scale_key(),
            {"growth", "2", "factor after growth_interval steps without overflow"},
            {"backoff", "0.5", "factor after an overflow"},
            {"growth_interval", "2000", "steps without overflow before S grows"}};
}

SchemeKey initial_loss_scale_key() {
    return {"init", "auto",
            "S at the first step: a positive fp32 number, or auto: 2^(E+1), E = floor(log2 "
            "largest), between 1 and 2^16: "
            "65536 for fp16, e5m2 and wider exponents, 512 for e4m3fn, 256 for e4m3, 16 for e3m4"};
}

double initial_loss_scale(const SchemeArguments& arguments) {
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): the definition takes a format
    if (arguments.text("init") == "auto")
        return std::ldexp(1.0, std::clamp(arguments.format->emax() + 1, 0, 16));
    const double init = arguments.scale("init", "auto");
    if (init < 0x1p-126 || init > 0x1.fffffep127) {
        throw std::invalid_argument("init=" + arguments.text("init") +
                                    " is neither auto nor a positive fp32 number (such as 65536)");
    }
    return init;
}

SchemeParts dynamic_loss_scheme(const SchemeArguments& arguments) {
    SchemeParts scheme = float_scheme(arguments);
    scheme.memory.keeps = scheme.choice.joins_tensors = scheme.choice.looks_ahead = true;
    return scheme;
}

SchemeParts grad_scaler(const SchemeArguments& arguments, MinimumSchedule minimum,
                        const LossScaleBounds& bounds) {
    SchemeParts scheme = dynamic_loss_scheme(arguments);
    // growth > 1 and backoff < 1 are also conditions of torch.
    const double growth = arguments.scale("growth"), backoff = arguments.scale("backoff");
    const double init = initial_loss_scale(arguments);
    if (growth <= 1.0)
        throw std::invalid_argument("growth=" + arguments.text("growth") + " is not above 1");
    if (backoff >= 1.0)
        throw std::invalid_argument("backoff=" + arguments.text("backoff") + " is not below 1");
    const long interval = arguments.integer("growth_interval", 1, 1'000'000'000);
    scheme.choice.choose =
        [scaler = GradScaler{init, growth, backoff, interval, std::move(minimum), bounds},
         found_inf = FoundInf(*scheme.encoding.float_encoder)](const SelectionInput& input,
                                                               State& state) {
            return scaler.run(input, found_inf, state);
        };
    return scheme;
}

}  // namespace apscope::detail
