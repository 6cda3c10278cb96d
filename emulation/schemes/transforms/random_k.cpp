// random_k: k = max(1, floor(keep n)) of the n elements, chosen at random by words that all workers draw alike: their
// messages add element by element, and no place is sent. The chosen are those of the k largest words, of equals the first.
//
//      y = fl32(x n / k), at most the largest fp32 number, or fl32(x) (scale=false), with probability k / n, else 0
//      E[y] - x = y k / n - x      Var y = y^2 (k / n) (1 - k / n), with the scale x^2 (n / k - 1) but for fl32
#include <algorithm>
#include <limits>

#include "core/bits.h"
#include "emulation/draws/random_words.h"
#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/sparse.h"
#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

struct Chosen {
    std::vector<std::size_t> places;  // ascending

    void fields(Fields& f) { f.row("places", places); }
};

Parameters select(const TrainingStep& step, std::size_t n, double keep) {
    Row words(n);
    random_words(step.shared_stream(53), 0, n, words.data());
    Parameters theta;
    theta.own.of<Chosen>().places = largest(n, kept_of(n, keep), [&](std::size_t i) { return words[i]; });
    return theta;
}

Message encode(const TrainingStep& step, const std::vector<std::size_t>& places, std::span<const double> x, bool scales) {
    const auto n = static_cast<double>(x.size()), k = static_cast<double>(places.size());
    const double factor = scales ? n / k : 1.0, probability = k / n;
    constexpr double limit = std::numeric_limits<float>::max();
    const auto sent = [&](double v) -> double { return static_cast<float>(std::clamp(v * factor, -limit, limit)); };
    Message m;
    m.prepare(x.size(), false, true);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double y = sent(x[i]);
        m.values[i] = 0.0;
        m.bias[i] = y * probability - x[i];
        m.variance[i] = y * y * (probability * (1.0 - probability));
    }
    BitWriter bits;
    for (const std::size_t i : places) {
        m.values.at(i) = sent(x[i]);
        if (step.packs) bits.put(bits_cast<std::uint32_t>(static_cast<float>(m.values[i])), 32);
    }
    m.payload_bits = 32 * places.size();
    m.payload = bits.take();
    return m;
}

}  // namespace

SchemeDefinition random_k_definition() {
    return {.class_name = "RandomK",
            .summary = "elements at random places that all workers share, as fp32, scaled to be unbiased; added in fp32",
            .source = "Stich et al., Sparsified SGD with Memory, NeurIPS 2018 (arXiv:1809.07599); scaled: Konecny and Richtarik, Randomized "
                      "Distributed Mean Estimation, Frontiers in Applied Mathematics and Statistics 2018 (arXiv:1611.07555)",
            .needs = "gradients",
            .keys = {{"keep", "0.01", "share of the elements that is sent"},
                     {"scale", "true", "what is sent is multiplied by n / k, which makes it unbiased; false, as inside error_feedback: as it is"}},
            .build = [](const SchemeArguments& arguments) -> SchemeKind {
        TensorScheme t;
        t.grid = "sparse:fp32";
        t.topology = reductions::linear;
        t.draws = t.shares_draws = true;
        t.select = [keep = arguments.number("keep", 1e-9, 1.0)](const TrainingStep& step, State&, const Rows& x) {
            return select(step, x[0].size(), keep);
        };
        t.encode = [scales = arguments.flag("scale")](const TrainingStep& step, const Parameters& theta, std::span<const double> x, int) {
            return encode(step, theta.of<Chosen>().places, x, scales);
        };
        return t;
    }};
}

}  // namespace apscope::detail
