// terngrad: -s, 0 or s, drawn so that the mean is right; s is the largest magnitude over all workers, so the
// workers' codes -1, 0, 1 add up as integers.
//
//      x = clip(g, c standard deviations)      the deviation of each worker's own tensor, about its mean
//      s = max over the workers of max |x|     agreed by MAX; s = 1 for a tensor of zeros
//      sent = s sign(x) b,  b = 1 with probability |x| / s
//
// The sum of W codes lies in -W..W: ceil(log2(2W + 1)) bits an element inside the network. The payload is
// what a worker sends: 2 bits an element.
#include "emulation/codecs/levels.h"
#include "emulation/codecs/statistics.h"
#include "emulation/schemes/numbers.h"

namespace apscope {

namespace {

constexpr double ternary[] = {-1.0, 0.0, 1.0};

double deviation(std::span<const double> x) {
    if (x.empty()) return 0.0;
    const auto n = static_cast<double>(x.size());
    const double mean = fixed_sum(x.size(), [&](std::size_t i) { return x[i]; }) / n;
    return std::sqrt(fixed_sum(x.size(), [&](std::size_t i) { return (x[i] - mean) * (x[i] - mean); }) / n);
}

State select(const Rows& x, double clip) {
    Row bounds;
    double scale = 0.0;
    for (const Row& row : x) {
        bounds.push_back(clip == 0.0 ? amax_of(row) : std::min(amax_of(row), clip * deviation(row)));
        scale = std::max(scale, bounds.back());
    }
    return {{"bound", bounds}, {"scale", {scale == 0.0 ? 1.0 : scale}}};
}

Message encode(const TensorStep& step, const State& theta, std::span<const double> x, int worker, int random_bits) {
    const double bound = theta.at("bound").at(static_cast<std::size_t>(worker));
    Row clipped(x.begin(), x.end());
    for (double& v : clipped) v = std::clamp(v, -bound, bound);
    Message m = encode_levels(clipped, ternary, number(theta, "scale"), LevelRule::stochastic, step.stream(worker, random_bits), step.packs);
    for (std::size_t i = 0; i < x.size(); ++i) m.bias[i] += clipped[i] - x[i];
    m.side_bits = 32;
    return m;
}

// Codes 0, 1, 2 stand for -1, 0, 1.
Row add_codes(const State& theta, const std::vector<Message>& sent) {
    Row sum(sent[0].codes.size(), 0.0);
    for (const Message& m : sent) {
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += m.codes[i] - 1.0;
    }
    for (double& s : sum) s *= number(theta, "scale");
    return sum;
}

}  // namespace

SchemeDefinition terngrad_definition() {
    return {"terngrad",
            "TernGrad",
            "-s, 0 or s of an agreed s, stochastic; codes are added as integers",
            "Wen et al., TernGrad, NIPS 2017 (arXiv:1705.07878)",
            "gradients",
            false,
            {{"clip", "2.5", "standard deviations beyond which a worker clips; 0: it does not"},
             {"random_bits", "32", "random bits of stochastic rounding, 1 to 53"}},
            [](const SchemeArguments& arguments, Scheme& scheme) {
                const double clip = number_between(arguments, "clip", 0.0, 1e6);
                const int bits = static_cast<int>(arguments.integer("random_bits", 1, 53));
                TensorScheme t;
                t.grid = "levels:3";
                t.topology = "code_sum";
                t.draws = t.is_exact_sum = true;
                t.select = [clip](const TensorStep&, State&, const Rows& x) { return select(x, clip); };
                t.encode = [bits](const TensorStep& step, const State& theta, std::span<const double> x, int worker) {
                    return encode(step, theta, x, worker, bits);
                };
                t.reduce = [](const TensorStep&, State&, const State& theta, const std::vector<Message>& sent, const Topology&) {
                    return add_codes(theta, sent);
                };
                scheme.tensor = std::make_shared<const TensorScheme>(std::move(t));
            }};
}

}  // namespace apscope
