// fractrain: progressive fractional quantization (PFQ): affine integers whose width grows when the loss stalls.
//
//      step = (max - min) / (2^b - 1), at least least_scale      min and max of one worker's tensor
//      q    = floor((g - min) / step + U[0, 1))                   decoded: min + step q
//      b    = bits[turning points so far]
//
// The loss indicator: the last 5 losses are kept. If all of them are within epsilon of the last one, relative to the mean of
// the first 10 losses, a turning point is there: the window starts anew, and at the first and second epsilon
// becomes alpha epsilon. A width holds from the step after. Losses here are those of the replayed steps, where the
// source takes epochs; losses that are not finite are left out.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "emulation/schemes/codecs/levels.h"
#include "emulation/schemes/scheme.h"
#include "emulation/schemes/shared/plain_number.h"

namespace apscope::detail {

namespace {

std::vector<int> schedule(const std::string& text) {
    std::vector<int> bits;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find('/', begin), text.size());
        int b = 0;
        const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, b);
        if (error != std::errc{} || stop != text.data() + end || b < 1 || b > 16) {
            throw std::invalid_argument("bits=" + text + " is no list of widths from 1 to 16, such as 6/6/8/8");
        }
        bits.push_back(b);
        begin = end + 1;
    }
    return bits;
}

Message encode_affine(std::span<const double> x, int bits, double least, const RandomStream& stream, bool packs) {
    const auto [low, high] = std::minmax_element(x.begin(), x.end());
    const double min = x.empty() ? 0.0 : *low, range = x.empty() ? 0.0 : *high - *low;
    Row codes(std::size_t{1} << bits), above(x.begin(), x.end());
    for (std::size_t q = 0; q < codes.size(); ++q) codes[q] = static_cast<double>(q);
    for (double& g : above) g -= min;
    Message m = encode_levels(above, codes, std::max(range / codes.back(), least), LevelRule::stochastic, stream, packs);
    for (double& y : m.values) y += min;
    m.side_bits = 64;  // min and max
    return m;
}

constexpr std::size_t window = 5;
constexpr double losses_in_scale = 10.0;

// The row "indicator": turning points, epsilon, losses so far, the sum of the first 10.
Row& indicator(State& state, double epsilon) { return state.try_emplace("indicator", Row{0.0, epsilon, 0.0, 0.0}).first->second; }

void watch(State& state, double epsilon, double loss, double alpha, std::size_t widths) {
    Row& is = indicator(state, epsilon);
    Row& losses = state["losses"];
    if (!std::isfinite(loss) || is[0] + 1.0 >= static_cast<double>(widths)) return;
    is[2] += 1.0;
    if (is[2] <= losses_in_scale) is[3] += loss;
    if (losses.size() == window) losses.erase(losses.begin());
    losses.push_back(loss);
    const double scale = is[3] / std::min(is[2], losses_in_scale);
    const bool stalls = std::all_of(losses.begin(), losses.end(), [&](double l) { return std::abs(l - loss) <= is[1] * scale; });
    if (losses.size() < window || !stalls) return;
    is[0] += 1.0;
    if (is[0] <= 2.0) is[1] *= alpha;
    losses.clear();
}

}  // namespace

SchemeDefinition fractrain_definition() {
    return {"fractrain",
            "FracTrain",
            "affine integers per tensor, wider from turning point to turning point of the loss",
            "Fu et al., FracTrain, NeurIPS 2020 (arXiv:2012.13113)",
            "gradients and loss of consecutive steps",
            false,
            {{"bits", "6/6/8/8", "widths, one a stage, 1 to 16"},
             {"epsilon", "0.05", "losses closer than this share of the first ones' mean stall"},
             {"alpha", "0.3", "factor on epsilon at the first and second turning point"},
             {"least_scale", "1e-8", "the least distance of two codes"},
             {"random_bits", "32", "random bits of stochastic rounding, 1 to 53"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                const std::vector<int> widths = schedule(arguments.text("bits"));
                const double epsilon = plain_number(arguments, "epsilon"), alpha = plain_number(arguments, "alpha");
                const double least = plain_number(arguments, "least_scale");
                const int random_bits = static_cast<int>(arguments.integer("random_bits", 1, 53));
                TensorScheme t;
                t.grid = "affine:" + arguments.text("bits");
                t.keeps_state = t.draws = true;
                t.needs = {"loss"};
                t.select = [widths, epsilon](const TensorStep&, State& state, const Rows&) {
                    return State{{"bits", {static_cast<double>(widths.at(static_cast<std::size_t>(indicator(state, epsilon)[0])))}}};
                };
                t.encode = [least, random_bits](const TensorStep& step, const State& theta, std::span<const double> x, int worker) {
                    return encode_affine(x, static_cast<int>(number(theta, "bits")), least, step.stream(worker, random_bits), step.packs);
                };
                t.update = [epsilon, alpha, count = widths.size()](const TensorStep& step, State& state, const Exchange&) {
                    watch(state, epsilon, step.loss, alpha, count);
                };
                scheme.tensor = std::make_shared<const TensorScheme>(std::move(t));
            }};
}

}  // namespace apscope::detail
