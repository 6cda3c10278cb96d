// random_k sends k = max(1, floor(keep n)) of the n elements, chosen by random words that all
// workers share, so messages can be added element by element and indices are not sent. The elements
// with the k largest words are chosen; of elements with equal words, the first.
//
//      v        = fl32(x n / k)                  at most the largest fp32 number
//                 fl32(x)                        with scale=false
//      y        = v with probability k / n, else 0
//      E[y] - x = v k / n - x
//      Var y    = v^2 (k / n) (1 - k / n)        with scale=true about x^2 (n / k - 1)
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
    Cutoff words;  // word and index of the last chosen element
    std::size_t count = 0;

    void fields(Fields& f) { f.numbers("chosen", words.size, words.index, count); }
};

// Calls work(first, words) for consecutive parts of elements begin .. end - 1, with the random
// words of elements first .. first + words.size() - 1.
template <class Work>
void for_words(const TrainingStep& step, std::size_t begin, std::size_t end, Work&& work) {
    for_drawn<double>(step.shared_stream(53), begin, end - begin,
                      [&](std::size_t at, std::size_t count, const double* words) {
                          work(begin + at, std::span(words, count));
                      });
}

void choose(const TrainingStep& step, Parameters& theta, std::size_t n, double keep) {
    Chosen& chosen = theta.extra.of<Chosen>();
    chosen.count = kept_of(n, keep);
    chosen.words = cutoff_of(n, chosen.count, [&](auto&& f) {
        for_words(step, 0, n, [&](std::size_t first, std::span<const double> words) {
            for (std::size_t i = 0; i < words.size(); ++i) f(first + i, words[i]);
        });
    });
}

// The factor by which a sent element is multiplied, and the probability that an element is sent.
struct Send {
    double factor, probability;
};
struct SendChosen {
    static APSCOPE_INLINE void run(const double* x, const double* words, const Cutoff* last,
                                   double first, const Send* send, std::size_t count,
                                   double* values, double* bias, double* variance,
                                   std::uint64_t* selected) {
        constexpr double limit = std::numeric_limits<float>::max();
        const auto [factor, probability] = *send;
        const Cutoff cutoff = *last;
        std::int64_t sent = 0;
#pragma GCC ivdep  // the results do not overlap the inputs
        for (std::size_t i = 0; i < count; ++i) {
            const double scaled = x[i] * factor, above = scaled < -limit ? -limit : scaled;
            const double y = static_cast<double>(static_cast<float>(above > limit ? limit : above));
            const bool keeps =
                cutoff.keeps(words[i], first + static_cast<double>(static_cast<std::int64_t>(i)));
            values[i] = keeps ? y : 0.0;
            sent += keeps ? 1 : 0;
            bias[i] = y * probability - x[i];
            variance[i] = y * y * (probability * (1.0 - probability));
        }
        *selected += static_cast<std::uint64_t>(sent);
    }
};

void encode(const RowPiece& p, bool scales, Message& m) {
    const Chosen& chosen = p.theta.of<Chosen>();
    const auto n = static_cast<double>(p.place.size), k = static_cast<double>(chosen.count);
    const Send send{scales ? n / k : 1.0, k / n};
    m.prepare(p.x.size(), false, true);
    std::uint64_t selected = 0;
    BitWriter bits;
    for_words(p.step, p.place.first, p.place.first + p.x.size(),
              [&](std::size_t first, std::span<const double> words) {
                  const std::size_t at = first - p.place.first;
                  simd::run<SendChosen>(p.x.data() + at, words.data(), &chosen.words,
                                        static_cast<double>(first), &send, words.size(),
                                        m.values.data() + at, m.bias.data() + at,
                                        m.variance.data() + at, &selected);
                  for (std::size_t i = 0; p.packs() && i < words.size(); ++i) {
                      if (chosen.words.keeps(words[i], first + i))
                          bits.put(bits_cast<std::uint32_t>(static_cast<float>(m.values[at + i])),
                                   32);
                  }
              });
    m.payload_bits = 32 * selected;
    m.payload = bits.take();
}

}  // namespace

SchemeDefinition random_k_definition() {
    return {.class_name = "RandomK",
            .summary = "elements at random places that all workers share, as fp32, scaled to be "
                       "unbiased; added in fp32",
            .source = "Stich et al., Sparsified SGD with Memory, NeurIPS 2018 (arXiv:1809.07599); "
                      "scaled: Konecny and Richtarik, Randomized "
                      "Distributed Mean Estimation, Frontiers in Applied Mathematics and "
                      "Statistics 2018 (arXiv:1611.07555)",
            .needs = "gradients",
            .keys = {{"keep", "0.01", "share of the elements that is sent"},
                     {"scale", "true",
                      "sent values are multiplied by n / k, which makes them unbiased; false "
                      "(inside error_feedback): unchanged"}},
            .build = [](const SchemeArguments& arguments) -> SchemeParts {
                return {.grid = "sparse:fp32",
                        .topology = std::string(reductions::linear),
                        .choice = {.draw = [keep = arguments.number("keep", 1e-9, 1.0)](
                                               const TrainingStep& step, Parameters& theta,
                                               std::size_t n) { choose(step, theta, n, keep); }},
                        .encoding = {.encode = [scales = arguments.flag("scale")](const RowPiece& p,
                                                                                  Message& m) {
                            encode(p, scales, m);
                        }}};
            }};
}

}  // namespace apscope::detail
